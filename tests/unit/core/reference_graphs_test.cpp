/// \file
/// The joint graphs of AOTAutograd in tests/data/reference, written by tests/tools/fx_to_agraph.py,
/// with the values that its partitioners save.

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/analysis.h"
#include "graph/verify.h"
#include "graphs.h"
#include "partition/split.h"
#include "partitions.h"
#include "passes/dce.h"
#include "reference_files.h"

namespace antegrad::testing {
namespace reference_graphs_test {

/// Removes comments: names, which are not part of the graph, and node ids, which are.
std::string without_names(const std::string& text) {
  std::string result;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t comment = line.find('#'); comment != std::string::npos) {
      size_t end = comment + 2;
      while (end < line.size() && std::isdigit(line[end]) != 0) ++end;
      line.resize(end > comment + 2 ? end : comment);
      line.resize(line.find_last_not_of(' ') + 1);
      if (line.empty()) continue;
    }
    result += line + "\n";
  }
  return result;
}

class ReferenceGraph : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string text = reference_text(GetParam() + ".agraph");
  const Graph graph = parse_graph(text, GetParam());
  const nlohmann::json saved = nlohmann::json::parse(reference_text(GetParam() + ".saved.json"));

  /// Whether the comment after the definition of a value contains this name.
  bool is_named(ValueId id, const std::string& name) const {
    const size_t definition = text.find("%" + to_string(id) + ": ");
    std::string line = text.substr(definition, text.find('\n', definition) - definition);
    std::string comment = line.substr(line.rfind('#')) + " ";
    std::replace_if(
        comment.begin(), comment.end(), [](char c) { return c == '(' || c == ',' || c == ')'; },
        ' ');
    return comment.find(" " + name + " ") != std::string::npos;
  }

  /// Whether a value depends on a tangent, so that no forward can save it.
  IdMap<ValueId, bool> depends_on_tangents() const {
    IdMap<ValueId, bool> depends(graph.values.size(), false);
    const auto needs = [&depends](ValueId id) { return bool(depends[id]); };
    for (const Input& input : graph.inputs) {
      depends[input.value] = input.kind == InputKind::tangent;
    }
    for (const Node& node : graph.nodes) {
      if (std::none_of(node.inputs.begin(), node.inputs.end(), needs)) continue;
      for (const ValueId id : node.outputs) {
        if (id != kNoValue) depends[id] = true;
      }
    }
    return depends;
  }

  ValueId base_of(const nlohmann::json& id) const { return graph.base(id.get<ValueId>()); }
};

TEST_P(ReferenceGraph, IsValidAndPrintsAsItIsWritten) {
  EXPECT_NO_THROW(verify(graph));
  EXPECT_EQ(to_text(graph), without_names(text));
  EXPECT_EQ(saved["graph"], graph.name);
}

TEST_P(ReferenceGraph, SavesNamedTensorsThatTheForwardCanCompute) {
  const IdMap<ValueId, int32_t> producer = producers(graph), position = input_positions(graph);
  const IdMap<ValueId, bool> depends = depends_on_tangents();
  for (const auto& partition : saved["partitions"]) {
    EXPECT_FALSE(partition["saved"].empty());
    for (const auto& [name, value] : partition["saved"].items()) {
      const auto id = value.get<ValueId>();
      ASSERT_TRUE(graph.values.contains(id));
      EXPECT_TRUE(is_named(id, name)) << to_string(id) << " " << name;
      EXPECT_EQ(graph.value(id).kind, ValueKind::tensor) << name;
      EXPECT_FALSE(depends[id]) << name;
      EXPECT_TRUE(producer[id] >= 0 || position[id] >= 0) << name;
    }
  }
}

TEST_P(ReferenceGraph, TellsTheBytesOfStoragesThatNoPrimalOrResultHolds) {
  std::set<ValueId> held;
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::primal) held.insert(graph.base(input.value));
  }
  for (const Output& output : graph.outputs) {
    if (handed_out(output.kind)) held.insert(graph.base(output.value));
  }
  for (const auto& partition : saved["partitions"]) {
    std::set<ValueId> bases;
    for (const auto& [name, value] : partition["saved"].items()) bases.insert(base_of(value));
    int64_t bytes = 0;
    for (const ValueId base : bases) {
      if (!held.contains(base)) bytes += span_bytes(graph.value(base).meta).constant();
    }
    EXPECT_EQ(partition["saved_bytes"], bytes) << partition["partitioner"] << partition["options"];
  }
}

/// The backward needs exactly the values that AOTAutograd saves, without repeating any draw.
/// AOTAutograd moves some values captured in the backward into the forward and saves them; in our
/// partition they stay in the backward.
TEST_P(ReferenceGraph, SavesWhatTheBackwardReads) {
  std::set<ValueId> of_forward;
  for (const Input& input : graph.inputs) of_forward.insert(input.value);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::forward) of_forward.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const auto& partition : saved["partitions"]) {
    // Below the full budget, AOTAutograd repeats draws that it does not save.
    if (partition["options"].contains("activation_memory_budget") && !graph.generators.empty()) {
      continue;
    }
    IdMap<ValueId, bool> offered(graph.values.size(), false);
    std::set<ValueId> expected;
    for (const auto& [name, value] : partition["saved"].items()) {
      const ValueId base = base_of(value);
      offered[base] = true;
      if (of_forward.contains(base)) expected.insert(base);
    }
    const Partition ours = split_at(dce(graph), offered);
    verify_both(ours);
    std::set<ValueId> found;
    for (const SavedSlot& value : ours.plan.saved) found.insert(value.value);
    EXPECT_EQ(found, expected) << partition["partitioner"] << partition["options"];
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ReferenceGraph, ::testing::ValuesIn(graph_files()), test_name);

TEST(ReferenceGraphs, AreManyArchitectures) { EXPECT_GE(graph_files().size(), 8u); }

}  // namespace reference_graphs_test
}  // namespace antegrad::testing
