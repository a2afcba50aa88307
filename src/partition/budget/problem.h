#pragma once

/// \file
/// A joint graph for the planner of byte budgets: the values that take memory, and the operations
/// that compute them.
///
/// Values are storages: a view is its base, and numbers are values without bytes. Operations are
/// nodes; one with several outputs is one operation with several values. Views, and nodes that
/// nothing here depends on, are removed. Operations that depend on a tangent belong to the
/// backward and run in the order of the graph. All others belong to the forward; if the backward
/// needs their values, these may be kept or recomputed.
///
/// The model of time and memory is that of docs/budget.md: an operation takes a fixed time per
/// run, its values are allocated before it runs, and what it reads last is freed after it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "partition/hooks/packings.h"

namespace antegrad::budget {

struct Value {
  int64_t bytes = 0;
  int32_t maker = -1;         ///< operation that produces it
  bool result = false;        ///< the caller holds it: always in memory
  bool gradient = false;      ///< held until the end of the backward
  bool written_back = false;  ///< held until the end of the forward
  bool fused = false;         ///< takes memory only if it is saved: ByteRules::fused
  /// Picoseconds, if it is saved although it is fused: to write it to memory and to read it again.
  int64_t saving_time = 0;
  /// Not a decision of the plan: it is saved if the backward needs it.
  bool always_saved = false;
  /// Likewise: it is recomputed if the backward needs it.
  bool never_saved = false;
  ValueId id = kNoValue;      ///< in the graph
  int32_t first_packing = 0;  ///< of Problem::packings
  int32_t packing_count = 0;
  bool always_packed = false;  ///< if saved, then packed, by its only packing
  friend bool operator==(const Value&, const Value&) = default;
};

/// A way to keep one value of the forward packed, from its last use there to its first in the
/// backward.
struct Packing {
  int32_t way = 0;    ///< Packings::ways
  int64_t bytes = 0;  ///< of the packed form
  int64_t time = 0;   ///< picoseconds: to pack and to unpack
  /// In addition to the value and its packed form, while one is made from the other; PackCost.
  int64_t pack_scratch = 0;
  int64_t unpack_scratch = 0;
  friend bool operator==(const Packing&, const Packing&) = default;
};

/// A choice for a value fits into a byte.
inline constexpr int32_t kMostWays = 30;

struct Operation {
  int64_t time = 0;       ///< picoseconds, so that sums are exact
  bool backward = false;  ///< depends on a tangent, or must run in the backward
  bool required = false;  ///< runs in the forward, whatever is saved
  bool again = true;      ///< may run again, with the same result
  /// Kept from the forward for recomputation: the states of its generators.
  int64_t state_bytes = 0;
  int64_t scratch = 0;  ///< bytes that its kernel takes while it runs
  int32_t node = -1;    ///< position in Graph::nodes
  friend bool operator==(const Operation&, const Operation&) = default;
};

struct Problem {
  std::vector<Value> values;
  /// Those of the forward first, then those of the backward, each in order of execution.
  std::vector<Operation> operations;
  std::vector<Packing> packings;  ///< by value
  int32_t forward_count = 0;      ///< operations of the forward
  /// By operation: values that some operation makes. An operation that reads a fused value of the
  /// backward also reads what that is made from there, since one kernel computes both.
  Rows reads;
  Rows makes;    ///< by operation
  Rows readers;  ///< by value: operations
  /// By operation of the backward, ascending: the loop that it is in if kernels are generated.
  /// Loops end where a kernel that is not generated makes what the rest of the backward reads.
  std::vector<int32_t> loops;
  int64_t tangent_bytes = 0;  ///< in memory during the whole backward
  int64_t time = 0;           ///< picoseconds of forward and backward without recomputation

  int32_t backward_count() const { return static_cast<int32_t>(operations.size()) - forward_count; }
  const Value& value(int32_t index) const { return values[index]; }
  const Operation& operation(int32_t index) const { return operations[index]; }
  const Packing& packing(int32_t index) const { return packings[index]; }
  /// Packings that a plan may choose for a value; none if it is always packed.
  std::span<const Packing> choosable_packings(int32_t index) const;
  /// Bytes of a value while it is in memory and not saved.
  int64_t passing_bytes(int32_t index) const { return value(index).fused ? 0 : value(index).bytes; }
  /// Whether what an operation makes is fused.
  bool is_fused(int32_t operation) const;
  /// Whether a plan may decide to save a value of the forward or not.
  bool is_choice(int32_t index) const;
  /// Whether an operation of the backward reads it.
  bool is_read_in_backward(int32_t index) const;
  /// Whether an operation of the backward reads it, or it is a gradient.
  bool is_needed_in_backward(int32_t index) const;
  /// By operation of the forward: picoseconds from the start to its end.
  std::vector<int64_t> forward_times() const;
  friend bool operator==(const Problem&, const Problem&) = default;
};

/// `joint`: verified, without dead code. `seconds`: by node. `seconds_per_byte`: of memory that is
/// written or read. Throws GraphError if a result depends on a tangent. Packings of results,
/// gradients and values that are written back are ignored.
Problem make_problem(const Graph& joint, const std::vector<double>& seconds,
                     const ByteRules& rules = {}, const Packings& packings = {},
                     double seconds_per_byte = 0);

}  // namespace antegrad::budget
