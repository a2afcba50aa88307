#include "graph/parse.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graphs.h"

namespace antegrad::testing {
namespace parse_test {

struct Malformed {
  const char* text;
  const char* message;  // a part of it
};

TEST(Parse, SaysWhatWasExpectedAndWhere) {
  const std::string inputs = "antegrad.graph 1 \"x\"\ninputs\n  %0: f32[2] primal\n";
  const Malformed cases[] = {
      {"", "\"antegrad.graph\""},
      {"graph", "\"antegrad.graph\""},
      {"antegrad.graph 2 \"x\"\n", "version 1"},
      {"antegrad.graph 1 x\n", "double quotes"},
      {"antegrad.graph 1 \"x\n", "at the end of the string"},
      {"antegrad.graph 1 \"\\q\"\n", "escapes"},
      {"antegrad.graph 1 \"x\"\nsymbols s1\n", "the symbol s0"},
      {"antegrad.graph 1 \"x\"\nnodes\n", "\"inputs\""},
      {"antegrad.graph 1 \"x\"\ninputs\n  %0 f32[2] primal\n", "\":\""},
      {"antegrad.graph 1 \"x\"\ninputs\n  %0: f31[2] primal\n", "line 3, column 7"},
      {"antegrad.graph 1 \"x\"\ninputs\n  %0: f32[2 primal\n", "\"]\""},
      {"antegrad.graph 1 \"x\"\ninputs\n  %0: f32[2]{1, 2} primal\n", "1 strides"},
      {"antegrad.graph 1 \"x\"\ninputs\n  %0: f32[s0] primal\n", "\"symbols\" names"},
      {"antegrad.graph 1 \"x\"\ninputs\n  %0: f32[2] prime\n", "primal, tangent"},
      {"antegrad.graph 1 \"x\"\ninputs\n  %9999999: f32[2] primal\n", "a value below"},
      {"antegrad.graph 1 \"x\"\ninputs\n  %-1: f32[2] primal\n", "a value below"},
      {"antegrad.graph 1 \"x\"\ninputs\n  %0: f32[2] primal grad 3\n", "the end of the line"},
      {"  %0: f32[1] primal\n", "nothing before defines"},
      {"nodes\n  %1: f32[2] = add(%0)\noutputs\n", "namespace::name.overload"},
      {"nodes\n  %1: f32[2] = aten::neg.default(%0\noutputs\n", "\")\""},
      {"nodes\n  %1: f32[2] = aten::neg.default(%7)\noutputs\n", "a value that an input or a node"},
      {"nodes\n  aten::x.y(what)\noutputs\n", "an argument"},
      {"nodes\n  aten::x.y([1, true])\noutputs\n", "the kind of the first"},
      {"nodes\n  aten::x.y([[1]])\noutputs\n", "no list inside of a list"},
      {"nodes\n  aten::x.y([%0])\noutputs\n", "in {}"},
      {"nodes\n  aten::x.y({%0, 1})\noutputs\n", "\"%\""},
      {"nodes\n  aten::x.y(s3)\noutputs\n", "\"symbols\" names"},
      {"nodes\n  aten::x.y(nan(0x0))\noutputs\n", "the bits of a NaN"},
      {"nodes\n  aten::x.y(scalar(none))\noutputs\n", "a number"},
      {"nodes\n  aten::x.y(a.b=1)\noutputs\n", "the name of an argument"},
      {"nodes\noutputs\n  %0 product\n", "result, base, mutated"},
      {"nodes\noutputs\n  %3 result\n", "a value that an input or a node"},
      {"nodes\noutputs\n  what\n", "\"%\""},
  };
  for (const Malformed& row : cases) {
    const bool complete =
        std::string(row.text).substr(0, 4) == "ante" || row.text[0] == '\0' || row.text[0] == 'g';
    const std::string text = complete ? row.text : inputs + row.text;
    SCOPED_TRACE(text);
    expect_error<GraphError>([&] { parse_graph(text, "file.agraph"); }, row.message);
    expect_error<GraphError>([&] { parse_graph(text, "file.agraph"); }, "in file.agraph, line ");
  }
}

TEST(Parse, ChecksNamesOfArgumentsThatAreDeclared) {
  OpInfo info;
  info.name = "mine::checked.default";
  info.arg_names = {"self", "p"};
  Op::declare(info);
  expect_error<GraphError>(
      [] { graph_of("inputs\nnodes\n  mine::checked.default(1, q=2)\noutputs\n"); },
      "\"p\", argument 1 of mine::checked.default");
  expect_error<GraphError>(
      [] { graph_of("inputs\nnodes\n  mine::checked.default(1, p=2, r=3)\noutputs\n"); },
      "the 2 arguments");
}

TEST(Parse, IgnoresCommentsBlankLinesAndLineEndsOfWindows) {
  const Graph graph = parse_graph(
      "# a comment\n\nantegrad.graph 1 \"x\" # the name\r\ninputs\r\n\r\n  %0: f32[2] primal # "
      "first\r\n"
      "nodes\r\n# none\r\noutputs\r\n  %0 result is_input 0\r\n#end");
  EXPECT_EQ(graph.inputs.size(), 1u);
  EXPECT_EQ(graph.outputs.size(), 1u);
}

TEST(Parse, ReadsTheGraphsThatComeWithTheTests) {
  for (const char* file : {"mlp.agraph", "dropout.agraph", "views.agraph"}) {
    SCOPED_TRACE(file);
    const Graph graph = graph_from_file(file);
    expect_same(parse_graph(to_text(graph)), graph);
  }
}

TEST(Parse, ARecordAtTheEndComesBackAsText) {
  const Graph graph = graph_from_file("mlp.agraph");
  const GraphFile file{graph, "{\n  \"a # b\": [1, 2]\n}"};
  const GraphFile again = parse_graph_file(to_text(file));
  EXPECT_EQ(again.record, file.record);
  expect_same(again.graph, graph);
  expect_same(parse_graph(to_text(file)), graph);
  EXPECT_EQ(parse_graph_file(to_text(graph)).record, "");
  EXPECT_EQ(to_text(GraphFile{graph, ""}), to_text(graph));
}

TEST(Parse, ARecordIsOneJsonObject) {
  const std::string graph = to_text(graph_from_file("mlp.agraph"));
  for (const char* record : {"record\n", "record {}\n", "record\n[1]\n", "record\n{\"a\": }\n",
                             "record\n{} {}\n", "record\n{}\nrecord\n{}\n"}) {
    expect_error<GraphError>([&] { parse_graph(graph + record); }, "expected");
  }
}

}  // namespace parse_test
}  // namespace antegrad::testing
