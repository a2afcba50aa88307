#pragma once

/// \file
/// Producers and uses of the values of a graph, and reachability in both directions. Used by
/// passes, partitioners and programs.
///
/// Nodes are given by their position in Graph::nodes; -1 stands for no node. Results describe the
/// graph at the time of the call. Graphs must be verified. All functions are linear in the size of
/// the graph. For properties of a single node see OpTraits::has_side_effects(),
/// OpTraits::repeatable(), Node::must_run_once() and Node::repeatable().

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
    return std::span(items_).subspan(begin_[row], begin_[row + 1] - begin_[row]);
  }
  int32_t rows() const { return static_cast<int32_t>(begin_.size()) - 1; }

  /// For each of `columns`, the rows that contain it, ascending.
  Rows transposed(int32_t columns) const;
  friend bool operator==(const Rows&, const Rows&) = default;

 private:
  std::vector<int32_t> begin_ = {0};
  std::vector<int32_t> items_;
};

// --- kinds of graphs ----------------------------------------------------------------------------

/// Whether the graph computes gradients.
bool has_backward(const Graph& graph);
bool has_primals(const Graph& graph);
/// Whether the graph computes gradients of primals, so that it can be split into a forward and a
/// backward.
bool is_joint(const Graph& graph);

// --- definitions and uses -----------------------------------------------------------------------

/// Whether a node has its flag, of flags by Node::id. Missing ones are false.
inline bool is_flagged(int32_t node_id, const std::vector<bool>& flags) {
  const auto index = static_cast<size_t>(node_id);
  return node_id >= 0 && index < flags.size() && flags[index];
}

/// The producer of each value; -1 for inputs of the graph.
IdMap<ValueId, int32_t> producers(const Graph& graph);
/// The position of each value in Graph::inputs, or -1.
IdMap<ValueId, int32_t> input_positions(const Graph& graph);

/// Whether each value is an output of a kind that `counts` accepts.
template <class Counts>
IdMap<ValueId, bool> output_values(const Graph& graph, Counts counts) {
  IdMap<ValueId, bool> found(graph.values.size(), false);
  for (const Output& output : graph.outputs) {
    if (output.value != kNoValue && counts(output.kind)) found[output.value] = true;
  }
  return found;
}
/// Whether each value is an output.
IdMap<ValueId, bool> output_values(const Graph& graph);

/// What counts as a use. An output of the graph is a use after all nodes, at position
/// Graph::nodes.size().
enum class Uses : uint8_t { by_nodes, by_nodes_and_outputs };
/// The position of the last use of each value; -1 if there is none.
IdMap<ValueId, int32_t> last_uses(const Graph& graph, Uses uses);
/// The position of the last use of any value of each storage, or of the producer of its last value
/// if that is later; -1 for unused inputs.
IdMap<StorageId, int32_t> last_storage_uses(const Graph& graph, Uses uses);

/// Marks the storage of a value, if it has one.
void mark_storage(const Graph& graph, ValueId id, IdMap<StorageId, bool>& marks);

// --- reachability -------------------------------------------------------------------------------

/// Whether any of these values is marked. kNoValue is not.
template <class Ids, class Marks>
bool any_marked(const Ids& ids, const Marks& marked) {
  return std::ranges::any_of(ids, [&](auto id) { return id >= 0 && marked[id]; });
}

/// Backward reachability over the first `count` readers: `reads[i]` are the values that reader i
/// reads. Calls `runs(i)` from the last to the first, marks in `needed` the values that running
/// readers read, and returns which readers run. `runs` may use the marks so far.
template <class Reads, class Marks, class Runs>
std::vector<bool> needed_items(int32_t count, const Reads& reads, Marks& needed, Runs runs) {
  std::vector<bool> running(count, false);
  for (int32_t i = count; i-- > 0;) {
    if (!runs(i)) continue;
    running[i] = true;
    for (const auto value : reads[i]) needed[value] = true;
  }
  return running;
}

/// The same for the nodes of a graph.
template <class Runs>
std::vector<bool> needed_nodes(const Graph& graph, IdMap<ValueId, bool>& needed, Runs runs) {
  struct Inputs {
    const std::vector<Node>& nodes;
    const std::vector<ValueId>& operator[](int32_t i) const { return nodes[i].inputs; }
  };
  return needed_items(static_cast<int32_t>(graph.nodes.size()), Inputs{graph.nodes}, needed, runs);
}
/// The nodes on which the values marked in `needed` depend. Marks the inputs of these nodes as
/// well. Tokens count as values: a draw is needed by later draws.
std::vector<bool> needed_nodes(const Graph& graph, IdMap<ValueId, bool>& needed);

/// Forward reachability: the nodes that read a value marked in `values`, or for which
/// `starts(position)` is true. Marks their results, but not their tokens, which carry no data.
template <class Starts>
std::vector<bool> dependent_nodes(const Graph& graph, IdMap<ValueId, bool>& values, Starts starts) {
  std::vector<bool> dependent(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    dependent[i] = starts(static_cast<int32_t>(i)) || any_marked(node.inputs, values);
    if (!dependent[i]) continue;
    for (const ValueId id : node.results()) {
      if (id != kNoValue) values[id] = true;
    }
  }
  return dependent;
}

}  // namespace antegrad
