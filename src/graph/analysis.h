#pragma once

/// \file
/// Who makes and who reads the values of a graph, what values are computed from, and what is
/// computed from them. Passes, partitioners and programs ask here.
///
/// Answers are indexed by ValueId, by storage, or by position in Graph::nodes; -1 stands for no
/// node. They describe the graph as it was when they were made. Graphs must be verified. All
/// functions take time linear in the size of the graph. What a single node may do is told by
/// OpTraits::has_side_effects(), OpTraits::repeatable(), Node::must_run_once() and
/// Node::repeatable().

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Lists of numbers, one list per row.
class Rows {
 public:
  void add(int32_t item) { items_.push_back(item); }
  void end_row() { begin_.push_back(static_cast<int32_t>(items_.size())); }
  std::span<const int32_t> operator[](int32_t row) const {
    return {items_.data() + begin_[at(row)], at(begin_[at(row) + 1] - begin_[at(row)])};
  }
  int32_t rows() const { return static_cast<int32_t>(begin_.size()) - 1; }

  /// For each of `columns`, the rows that contain it, ascending.
  Rows transposed(int32_t columns) const;
  friend bool operator==(const Rows&, const Rows&) = default;

 private:
  std::vector<int32_t> begin_ = {0};
  std::vector<int32_t> items_;
};

// --- definitions and uses -----------------------------------------------------------------------

/// By value: the node that makes it; -1 for inputs of the graph.
std::vector<int32_t> producers(const Graph& graph);
/// By value: its position in Graph::inputs, or -1.
std::vector<int32_t> input_positions(const Graph& graph);

/// By value: whether it is an output of a kind that `counts` accepts.
template <class Counts>
std::vector<bool> output_values(const Graph& graph, Counts counts) {
  std::vector<bool> found(graph.values.size(), false);
  for (const Output& output : graph.outputs) {
    if (output.value != kNoValue && counts(output.kind)) found[at(output.value)] = true;
  }
  return found;
}
/// By value: whether it is an output.
std::vector<bool> output_values(const Graph& graph);

/// What is a use. An output of the graph is one behind all nodes, at position Graph::nodes.size().
enum class Uses : uint8_t { by_nodes, by_nodes_and_outputs };
/// By value: position of its last use; -1 if there is none.
std::vector<int32_t> last_uses(const Graph& graph, Uses uses);
/// By storage: position of the last use of a value of that storage, or of the node that makes its
/// last value if that comes later; -1 for inputs without a use.
std::vector<int32_t> last_storage_uses(const Graph& graph, Uses uses);

// --- reachability -------------------------------------------------------------------------------

/// Whether one of these values is marked; kNoValue is not.
template <class Ids>
bool any_marked(const Ids& ids, const std::vector<bool>& marked) {
  return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && marked[at(id)]; });
}

/// Backward reachability over the first `count` of anything that reads values: `reads[i]` are the
/// values that i reads. Asks `runs(i)` from the last to the first, marks in `needed` what those
/// read that run, and returns which these are. `runs` may look at the marks made so far.
template <class Reads, class Runs>
std::vector<bool> needed_items(int32_t count, const Reads& reads, std::vector<bool>& needed,
                               Runs runs) {
  std::vector<bool> running(at(count), false);
  for (int32_t i = count; i-- > 0;) {
    if (!runs(i)) continue;
    running[at(i)] = true;
    for (const int32_t value : reads[i]) needed[at(value)] = true;
  }
  return running;
}

/// The same over the nodes of a graph.
template <class Runs>
std::vector<bool> needed_nodes(const Graph& graph, std::vector<bool>& needed, Runs runs) {
  struct Inputs {
    const std::vector<Node>& nodes;
    const std::vector<ValueId>& operator[](int32_t i) const { return nodes[at(i)].inputs; }
  };
  return needed_items(static_cast<int32_t>(graph.nodes.size()), Inputs{graph.nodes}, needed, runs);
}
/// The nodes from which the values marked in `needed` are computed, whose inputs get marked too.
/// Tokens are values here: a draw is needed by what draws after it.
std::vector<bool> needed_nodes(const Graph& graph, std::vector<bool>& needed);

/// Forward reachability: the nodes that read a value marked in `values`, or for which
/// `starts(position)` is true. Their results get marked too; their tokens do not, since order is no
/// data.
template <class Starts>
std::vector<bool> dependent_nodes(const Graph& graph, std::vector<bool>& values, Starts starts) {
  std::vector<bool> dependent(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    dependent[i] = starts(static_cast<int32_t>(i)) || any_marked(node.inputs, values);
    if (!dependent[i]) continue;
    for (const ValueId id : node.results()) {
      if (id != kNoValue) values[at(id)] = true;
    }
  }
  return dependent;
}

}  // namespace antegrad
