#pragma once

/// \file
/// The joint graph as partitioners see it: one step for each input and each node, and for a node
/// with several outputs one more for each output that is used.
///
/// This is the granularity of AOTAutograd, where such a node returns a tuple and each output is
/// taken from it by a separate node. Distances and orders count as there. Tokens have no steps;
/// they are never recomputed.
///
/// Holds a reference to the graph, which must be verified, without dead code, and outlive it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"
#include "partition/tags.h"

namespace antegrad {

/// Where a step runs before any decision.
enum class Place : uint8_t {
  forward,   ///< results or token chains need it
  either,    ///< captured in the forward, but only gradients need it
  backward,  ///< captured in the backward and not needed for results; tangents
};

struct Step {
  ValueId value = kNoValue;  ///< its result; kNoValue: a node with several outputs, or none
  int32_t node = -1;         ///< position in Graph::nodes, or -1
  int32_t input = -1;        ///< position in Graph::inputs, or -1
  Place place = Place::backward;
  bool picks = false;          ///< takes one output of a node with several outputs
  bool recomputable = false;   ///< its operator is cheap enough to recompute
  bool fusible = false;        ///< generated code can compute it in one loop with its neighbours
  bool graph_output = false;   ///< its value leaves the joint graph
  bool needed_at_end = false;  ///< its value is a gradient
  /// Steps to the first one that is not of the forward: 0 for those themselves, kNeverRead if
  /// there is none.
  int32_t distance = 0;
  int32_t order = -1;  ///< number among the steps of the forward; -1 for others
};

inline constexpr int32_t kNeverRead = 1'000'000'000;

class StepGraph {
 public:
  /// `symbols`: values that the graph's symbols count as, by SymbolId; missing ones count as 4096.
  /// `recomputable_ops`: base names that replace the fusible operators of OpTraits. Views are
  /// always recomputable, and recomputable operators are fusible.
  StepGraph(const Graph& graph, const std::vector<int64_t>& symbols,
            const std::optional<std::vector<std::string>>& recomputable_ops = {});

  const Graph& graph() const { return graph_; }
  /// Values that the graph's symbols count as, by SymbolId.
  const std::vector<int64_t>& symbols() const { return symbols_; }
  /// The tags of checkpoints.
  const Tags& tags() const { return tags_; }
  int32_t size() const { return static_cast<int32_t>(steps_.size()); }
  /// In an order in which they can run.
  const Step& operator[](int32_t step) const { return steps_[step]; }
  /// Steps that use the result of this one, each once, ascending.
  std::span<const int32_t> users(int32_t step) const { return users_[step]; }
  /// The step that produces a value; -1 for tokens.
  int32_t of_value(ValueId id) const { return step_of_[id]; }

  const Node* node(int32_t step) const;    ///< null for inputs
  const Input* input(int32_t step) const;  ///< null for others
  /// Traits of the node; unknown traits for an input.
  const OpTraits& traits(int32_t step) const;
  bool is_view(int32_t step) const { return traits(step).view; }
  bool in_forward(int32_t step) const { return (*this)[step].place == Place::forward; }
  /// Whether generated code would compute `user` in one loop with `made`, without writing `made`
  /// to memory in between. The rule of fusion/fusing.h, as for fusion groups.
  bool fusible(int32_t made, int32_t user) const;

  /// Bytes of the elements of a tensor value; 0 for other values.
  int64_t bytes(ValueId id) const;
  /// Bytes of all tensors that the node of a step returns.
  int64_t bytes_made(int32_t step) const;
  /// Bytes of the storage of a tensor value; 0 for other values.
  int64_t storage_bytes(ValueId id) const;

 private:
  void make_steps();
  void classify(const std::optional<std::vector<std::string>>& recomputable_ops);
  void place();
  void link();
  void measure();

  const Graph& graph_;
  Tags tags_;
  std::vector<int64_t> symbols_;
  std::vector<Step> steps_;
  IdMap<ValueId, int32_t> step_of_;
  std::vector<int32_t> step_of_node_;  // by position
  Rows users_;                         // by step
};

}  // namespace antegrad
