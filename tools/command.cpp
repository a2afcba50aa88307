#include "command.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/analysis.h"
#include "graph/parse.h"
#include "graph/verify.h"
#include "partition/default_partition.h"
#include "partition/split.h"
#include "passes/dce.h"
#include "passes/size_only_inputs.h"

namespace antegrad::cli {
namespace {

std::string read_text(const std::string& file) {
  using Characters = std::istreambuf_iterator<char>;
  if (file == "-") return {Characters(std::cin), Characters()};
  if (std::filesystem::is_directory(file)) {
    throw UsageError(fmt::format("cannot read {}: it is a folder", file));
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw UsageError(fmt::format("cannot read {}: {}", file, std::strerror(errno)));
  return {Characters(stream), Characters()};
}

}  // namespace

void add_graph_file(CLI::App& command, std::string& file) {
  command.add_option("FILE", file, "A saved graph (.agraph); - reads standard input")->required();
}

void add_symbols(CLI::App& command, std::vector<std::string>& symbols) {
  command.add_option("--symbol", symbols, "Value of a symbolic size: NAME=NUMBER, repeatable")
      ->type_name("NAME=NUMBER")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

Graph read_graph(const std::string& file) { return read_graph_file(file).graph; }

GraphFile read_graph_file(const std::string& file) {
  return parse_graph_file(read_text(file), file == "-" ? "standard input" : file);
}

void write_text(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) throw UsageError(fmt::format("cannot write {}", file));
}

Graph read_valid_graph(const std::string& file) {
  Graph graph = read_graph(file);
  verify(graph);
  return graph;
}

Partition partition_of(Graph graph) {
  if (has_backward(graph) && !is_joint(graph)) {
    throw GraphError(ErrorText{"a joint graph to split into forward and backward",
                               "a graph with gradients and without primals", ""});
  }
  return default_partition(dce(size_only_inputs(std::move(graph))));
}

ByteRules byte_rules(const Graph& graph, const std::vector<std::string>& symbols,
                     const std::vector<int64_t>& known_values) {
  ByteRules rules;
  rules.symbols = known_values;
  std::vector<bool> given(known_values.size(), true);
  rules.symbols.resize(graph.symbols.size(), 0);
  given.resize(graph.symbols.size(), false);
  for (const std::string& word : symbols) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const char* end = word.data() + word.size();
    const char* digits = equals == std::string::npos ? end : word.data() + equals + 1;
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits, end, value);
    if (error != std::errc() || stop != end || value < 0) {
      throw UsageError(fmt::format("expected NAME=NUMBER after --symbol; found {}", word));
    }
    bool known = false;
    for (size_t i = 0; i < graph.symbols.size(); ++i) {
      if (graph.symbols[i] != name && fmt::format("s{}", i) != name) continue;
      rules.symbols[i] = value;
      given[i] = known = true;
    }
    if (!known) throw UsageError(fmt::format("the graph has no symbol {}", name));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i]) continue;
    throw UsageError(
        fmt::format("sizes of this graph depend on s{0} (\"{1}\"); give it a value, e.g. "
                    "--symbol s{0}=8",
                    i, graph.symbols[i]));
  }
  return rules;
}

}  // namespace antegrad::cli
