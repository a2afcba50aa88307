#include "passes/custom_pass.h"

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <antegrad/error.h>
#include <antegrad/passes.h>

#include "graph/compare.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace antegrad {
namespace {

struct PassRegistry {
  std::mutex mutex;
  std::map<std::string, JointPass> passes;
};

PassRegistry& registry() {
  static auto* passes = new PassRegistry();  // immortal: compilations may run at exit
  return *passes;
}

JointPass find_custom_pass(const std::string& name) {
  PassRegistry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto it = known.passes.find(name);
  return it == known.passes.end() ? JointPass() : it->second;
}

/// The graph without its nodes: the part that a pass must not change.
Graph border_of(const Graph& graph) {
  Graph border = graph.skeleton(graph.name);
  border.blocks.clear();  // of nodes
  const auto keep = [&](ValueId& id) {
    if (id == kNoValue) return;
    id = border.values.add(graph.value(id));
    border.value(id).storage = border.value(id).alias_class = -1;  // numbers of the original graph
  };
  border.inputs = graph.inputs;
  border.outputs = graph.outputs;
  for (Input& input : border.inputs) keep(input.value);
  for (Output& output : border.outputs) keep(output.value);
  return border;
}

/// Gives new ids to nodes that the pass added or duplicated.
void number_new_nodes(Graph& graph, int32_t next) {
  std::set<int32_t> ids;
  for (Node& node : graph.nodes) {
    if (node.id < 0 || node.id >= next || !ids.insert(node.id).second) node.id = -1;
  }
  for (Node& node : graph.nodes) {
    if (node.id < 0) node.id = next++;
  }
}

}  // namespace

void register_joint_pass(const std::string& name, JointPass pass) {
  if (name.empty() || !pass) {
    throw InputError(ErrorText{"a name and a function for a pass",
                               name.empty() ? "an empty name" : "no function", ""});
  }
  PassRegistry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.passes.insert_or_assign(name, std::move(pass));
}

std::vector<std::string> custom_passes() {
  PassRegistry& known = registry();
  const std::lock_guard lock(known.mutex);
  std::vector<std::string> names;
  for (const auto& [name, pass] : known.passes) names.push_back(name);
  return names;
}

void check_custom_pass(const std::string& name) {
  if (name.empty() || find_custom_pass(name)) return;
  const std::vector<std::string> names = custom_passes();
  throw OptionError(
      ErrorText{"a joint_custom_pass that was registered", fmt::format("\"{}\"", name),
                names.empty() ? "register it with register_joint_pass() first"
                              : fmt::format("registered are: {}", fmt::join(names, ", "))});
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): every pass takes its graph by value.
Graph run_custom_pass(Graph graph, const PassContext& context) {
  const std::string& name = context.custom_pass;
  check_custom_pass(name);
  const std::string text = find_custom_pass(name)(to_text(graph));
  Graph changed;
  std::string wrong;
  try {
    changed = parse_graph(text, fmt::format("what the pass {} returned", name));
    number_new_nodes(changed, next_node_id(graph));
    verify(changed);
    wrong = first_difference(border_of(graph), border_of(changed));
  } catch (const Error& error) {
    wrong = error.what();
  }
  if (wrong.empty()) return changed;
  throw GraphError(ErrorText{
      fmt::format("a valid graph with the same inputs and outputs from joint_custom_pass \"{}\"",
                  name),
      wrong, "dump_dir shows the graph that the pass was given"});
}

}  // namespace antegrad
