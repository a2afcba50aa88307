#include "explain/import_json.h"

#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "exported_graphs.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "gzip/gzip.h"
#include "reference_files.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace import_json_test {

const std::string kData = ANTEGRAD_TEST_DATA;

TEST(ImportJson, ReadsEveryExportedGraph) {
  EXPECT_EQ(exported_names().size(), 14u);
  for (const std::string& name : exported_names()) {
    const ImportedGraph imported = exported_graph(name);
    EXPECT_EQ(imported.graph.name, name);
    EXPECT_NO_THROW(verify(imported.graph)) << name;
    EXPECT_EQ(imported.reference.size(), 7u) << name;
  }
}

/// tests/data/reference/exported holds most of the same graphs in our textual form, converted by
/// another program, with the values that AOTAutograd saves.
TEST(ImportJson, SaysWhatAnotherConverterSays) {
  int compared = 0;
  for (const std::string& name : exported_names()) {
    const std::string other = "reference/exported/" + name;
    if (!std::filesystem::exists(kData + "/" + other + ".agraph")) continue;
    const ImportedGraph imported = exported_graph(name);
    EXPECT_EQ(to_text(imported.graph),
              to_text(parse_graph(reference_text(other + ".agraph"), name)));
    const auto saved = nlohmann::json::parse(reference_text(other + ".saved.json"));
    for (const auto& partition : saved["partitions"]) {
      std::string budget = "default";
      if (partition["partitioner"] != "default_partition") {
        budget = partition["options"].value("activation_memory_budget", nlohmann::json(1.0)).dump();
      }
      std::set<ValueId> expected;
      for (const auto& [node, value] : partition["saved"].items())
        expected.insert(value.get<ValueId>());
      const auto found = std::find_if(imported.reference.begin(), imported.reference.end(),
                                      [&](const auto& entry) { return entry.first == budget; });
      ASSERT_NE(found, imported.reference.end()) << name << " " << budget;
      EXPECT_EQ(std::set<ValueId>(found->second.begin(), found->second.end()), expected)
          << name << " " << budget;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 13);
}

/// A draw whose first output is unused, a view of a tangent, and an undefined gradient.
const char* const kTiny = R"({
  "name": "tiny", "params": 1, "storages": [32, 32, 4, 32, 4, 8, 32], "fw_out": [5], "bw_out": [7, -1],
  "nodes": [
    {"n": "primals_1", "k": "primal", "op": "placeholder", "in": [], "o": [[0, [2, 4], "float32"]]},
    {"n": "primals_2", "k": "primal", "op": "placeholder", "in": [], "o": [[1, [2, 4], "float32"]]},
    {"n": "tangents_1", "k": "tangent", "op": "placeholder", "in": [], "o": [[2, [], "float32"]]},
    {"n": "drop", "k": "op", "op": "aten.native_dropout.default", "tags": ["rnd"], "in": [0],
     "o": [[3, [2, 4], "float32"], [5, [2, 4], "bool"]]},
    {"n": "getitem", "k": "op", "op": "getitem:1", "in": [3], "o": [[5, [2, 4], "bool"]]},
    {"n": "sum_1", "k": "op", "op": "aten.sum.default", "in": [1], "o": [[4, [], "float32"]]},
    {"n": "expand", "k": "op", "op": "aten.expand.default", "tags": ["view"], "in": [2],
     "o": [[2, [2, 4], "float32"]]},
    {"n": "mul", "k": "op", "op": "aten.mul.Tensor", "in": [6, 4], "o": [[6, [2, 4], "float32"]]}
  ],
  "ref": {"default": {"saved": ["getitem"]}, "0.5": {"saved": ["primals_1"]}}
})";

TEST(ImportJson, KeepsDrawsViewsAndUnusedOutputs) {
  const ImportedGraph imported = import_json(kTiny, "tiny.json");
  const Graph expected = parse_graph(R"(antegrad.graph 1 "tiny"
generators cpu
inputs
  %0: f32[2, 4] primal parameter "primals_1" grad
  %1: f32[2, 4] primal argument 0
  %2: token generator 0
  %3: f32[] tangent 0
nodes
  %4: f32[2, 4], %5: bool[2, 4], %6: token = aten::native_dropout.default(%0; %2)  # 0
  %7: f32[] = aten::sum.default(%1)  # 1
backward
  %8: f32[2, 4] &3 = aten::expand.default(%3)  # 2
  %9: f32[2, 4] = aten::mul.Tensor(%8, %5)  # 3
outputs
  %7 result grad
  %6 generator 0
  %9 gradient 0
)");
  EXPECT_EQ(to_text(imported.graph), to_text(expected));
  const std::vector<std::pair<std::string, std::vector<ValueId>>> saved = {{"0.5", {0}},
                                                                           {"default", {5}}};
  EXPECT_EQ(imported.reference, saved);
}

/// What the Python package writes: no storages, devices, tags, results that share memory, a call of
/// a random operator that draws nothing, and an input that is written.
const char* const kFromPython = R"({
  "name": "traced", "params": 0, "fw_out": [5, 6, 0], "bw_out": [10, -1, -1, -1], "tangent_of": [1],
  "mutated": [[1, 7]],
  "nodes": [
    {"n": "w", "k": "primal", "op": "placeholder", "held": true, "in": [], "o": [[null, [2], "float32", "cuda:0"]]},
    {"n": "x", "k": "primal", "op": "placeholder", "held": false, "in": [], "o": [[null, [2], "float32", "cuda:0"]]},
    {"n": "c", "k": "const", "op": "placeholder", "held": false, "in": [], "o": [[null, [2], "float32", "cuda:0"]]},
    {"n": "t", "k": "tangent", "op": "placeholder", "held": false, "in": [], "o": [[null, [2], "float32", "cuda:0"]]},
    {"n": "mul", "k": "op", "op": "aten.mul.Tensor", "in": [0, 1], "bw": false, "recompute": "prefer_recompute",
     "block": 1, "o": [[null, [2], "float32", "cuda:0"]]},
    {"n": "drop", "k": "op", "op": "aten.native_dropout.default", "in": [4], "bw": false, "tags": ["rnd"],
     "draws": false, "o": [[null, [2], "float32", "cuda:0"], [null, [2], "bool", "cuda:0"]]},
    {"n": "view", "k": "op", "op": "aten.view.default", "in": [5], "bw": false,
     "o": [[null, [2, 1], "float32", "cuda:0"]]},
    {"n": "mine", "k": "op", "op": "mine.probe.default", "in": [1, 2], "bw": false,
     "o": [[null, [2], "float32", "cuda:0"]]},
    {"n": "early", "k": "op", "op": "aten.sin.default", "in": [1], "bw": true,
     "o": [[null, [2], "float32", "cuda:0"]]},
    {"n": "late", "k": "op", "op": "aten.mul.Tensor", "in": [3, 8], "bw": true,
     "o": [[null, [2], "float32", "cuda:0"]]},
    {"n": "gradient", "k": "op", "op": "aten.mul.Tensor", "in": [9, 4], "bw": true,
     "o": [[null, [2], "float32", "cuda:0"]]}
  ]
})";

TEST(ImportJson, ReadsWhatThePythonPackageWrites) {
  const ImportedGraph imported = import_json(kFromPython, "traced.json");
  verify(imported.graph);
  EXPECT_EQ(to_text(imported.graph), to_text(parse_graph(R"(antegrad.graph 1 "traced"
blocks none, none
inputs
  %0: f32[2] cuda:0 primal parameter "w" grad
  %1: f32[2] cuda:0 primal argument 1 mutates_data
  %2: f32[2] cuda:0 primal constant "c"
  %3: f32[2] cuda:0 tangent 0
nodes
  %4: f32[2] cuda:0 = aten::mul.Tensor(%0, %1) in 1 prefer_recompute  # 0
  %5: f32[2] cuda:0, %6: bool[2] cuda:0 = aten::native_dropout.default(%4, none, false)  # 1
  %7: f32[2, 1] cuda:0 &5 = aten::view.default(%5)  # 2
  %8: f32[2] cuda:0 = mine::probe.default(%1, %2)  # 3
backward
  %9: f32[2] cuda:0 = aten::sin.default(%1)  # 4
  %10: f32[2] cuda:0 = aten::mul.Tensor(%3, %9)  # 5
  %11: f32[2] cuda:0 = aten::mul.Tensor(%10, %4)  # 6
outputs
  %5 result grad
  %0 result is_input 0
  %8 mutated 1
  %11 gradient 0
)")));
  EXPECT_EQ(imported.nodes_of_calls, (std::vector<size_t>{4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(imported.nodes_of_values[ValueId(7)], 6);
  EXPECT_EQ(imported.nodes_of_values[ValueId(6)], -1);
}

TEST(ImportJson, RefusesWhatIsNoSuchGraph) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kTiny;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text :
       {std::string("{"), std::string("[]"), changed("\"params\"", "\"parameters\""),
        changed("aten.mul.Tensor", "mine"), changed("float32", "quint8"),
        changed("\"in\": [6, 4]", "\"in\": [6, 40]"), changed("\"in\": [6, 4]", "\"in\": [6, 7]"),
        changed("\"in\": [6, 4]", "\"in\": [6, -4]"), changed("getitem:1", "getitem:2"),
        changed("getitem:1", "getitem:x"), changed("[\"getitem\"]", "[\"nobody\"]"),
        changed("\"fw_out\": [5]", "\"fw_out\": []")}) {
    try {
      import_json(text, "tiny.json");
      ADD_FAILURE() << text;
    } catch (const GraphError& error) {
      EXPECT_NE(std::string(error.what()).find("tiny.json"), std::string::npos) << error.what();
    }
  }
}

class Files : public ::testing::Test {
 protected:
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  const TemporaryFolder folder;
  const std::string path = folder / "graph.json";
};

TEST_F(Files, AreReadPlainOrGzipped) {
  write("plain text");
  EXPECT_EQ(read_maybe_gzipped(path), "plain text");
  write("");
  EXPECT_EQ(read_maybe_gzipped(path), "");
  EXPECT_EQ(read_maybe_gzipped(kData + "/joint/mlp2_small.json.gz").front(), '{');
}

TEST_F(Files, ThatCannotBeReadAreRefused) {
  std::ifstream stream(kData + "/joint/mlp2_small.json.gz", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  write(bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(read_maybe_gzipped(path), InputError);
  std::string broken = bytes;
  broken[broken.size() / 2] = static_cast<char>(broken[broken.size() / 2] ^ 0x55);
  write(broken);
  EXPECT_THROW(read_maybe_gzipped(path), InputError);
  EXPECT_THROW(read_maybe_gzipped(path + ".nowhere"), InputError);
  EXPECT_THROW(read_maybe_gzipped(kData), InputError);
}

}  // namespace import_json_test
}  // namespace antegrad::testing
