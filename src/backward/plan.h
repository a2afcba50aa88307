#pragma once

/// \file
/// How a backward pass runs: which of its nodes become programs, and what runs in between.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backward/numbers.h"
#include "torch_compat/node_formulas.h"

namespace antegrad::backward {

/// An input of a node of the pass, at which gradients arrive and are added.
struct Slot {
  int32_t node = -1;
  int32_t input = -1;
  friend bool operator==(const Slot&, const Slot&) = default;
  friend auto operator<=>(const Slot&, const Slot&) = default;
};

/// Nodes that are computed together, with nothing of the user's in between.
struct Segment {
  std::vector<int32_t> nodes;     ///< places in the pass, in its order
  std::vector<int32_t> sums;      ///< of these, accumulators that add to gradients that are there
  std::vector<Slot> arrives;      ///< where gradients from outside may have arrived before it runs
  std::vector<Slot> leaves;       ///< inputs of later nodes to which it gives gradients
  std::vector<int32_t> saved;     ///< saved tensors that it reads
  std::vector<int32_t> last_use;  ///< of these, positions of those that no later step reads
  /// By saved tensor: whether it may lie elsewhere in its memory in each pass. Regions know where
  /// in its memory a tensor lies.
  std::vector<bool> may_move;
};

struct Step {
  enum class Kind : uint8_t {
    segment,  ///< the segment `index`
    node,     ///< the node at place `index` itself, with its hooks
    hooks,    ///< hooks before the node at place `index`, which is part of a later segment
    give,     ///< gradients that are asked for, which arrive at a node that does not run
  };
  Kind kind = Kind::node;
  int32_t index = -1;
};

/// Of all passes with one key.
struct Plan {
  std::vector<Step> steps;
  std::vector<Segment> segments;
  /// By place; null for accumulators, and for nodes that run themselves.
  std::vector<std::unique_ptr<torch_compat::NodeFormula>> formulas;
  std::vector<std::string> names;  ///< by place (names_of_nodes())
  NumberedKey numbered;  ///< of the pass that was planned, also of nodes that run themselves
  std::vector<int32_t>
      unread;  ///< saved tensors that no segment reads: of nodes that run themselves
  int64_t nodes_in_segments = 0;
  std::map<std::string, int64_t> own_nodes;  ///< of a pass: how many run themselves, by name
  std::map<std::string, int64_t> regions;    ///< of a pass: compiled regions in segments
};

/// Nodes run in the order of the pass. Those at `refused` places run themselves. Accumulators of
/// leaves that nobody observes wait for the end of the segment, where they get new gradients; those
/// that add to a gradient that is there are part of the segment.
Plan plan_of(const torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited,
             const std::set<int32_t>& refused = {});

}  // namespace antegrad::backward
