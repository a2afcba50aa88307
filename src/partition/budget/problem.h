#pragma once

/// \file
/// A joint graph as byte budgets see it: what takes memory, and the nodes that compute it.
///
/// Values are storages: a view is its base, and numbers are values without bytes. Operations are nodes; one
/// with several outputs is one operation with several values. Views, and nodes that nothing here depends on,
/// vanish. What depends on a tangent is of the backward and runs in the order of the graph; all else is of the
/// forward, and where the backward needs it, may be kept from the forward or computed again.
///
/// The model of time and memory is that of docs/budget.md: an operation takes so many seconds each time it
/// runs; its values are allocated before it runs, and what it reads last is freed after it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "partition/packings.h"

namespace antegrad::budget {

/// Lists of numbers, one list a row.
class Rows {
 public:
  void add(int32_t item) { items_.push_back(item); }
  void end_row() { begin_.push_back(static_cast<int32_t>(items_.size())); }
  std::span<const int32_t> operator[](int32_t row) const {
    const auto i = static_cast<size_t>(row);
    return {items_.data() + begin_[i], static_cast<size_t>(begin_[i + 1] - begin_[i])};
  }
  int32_t rows() const { return static_cast<int32_t>(begin_.size()) - 1; }

  /// For each of `columns`, the rows that hold it, ascending.
  Rows transposed(int32_t columns) const;
  friend bool operator==(const Rows&, const Rows&) = default;

 private:
  std::vector<int32_t> begin_ = {0};
  std::vector<int32_t> items_;
};

struct Value {
  int64_t bytes = 0;
  int32_t maker = -1;         ///< operation
  bool result = false;        ///< the caller holds it: there at all times
  bool gradient = false;      ///< held until the end of the backward
  bool written_back = false;  ///< held until the end of the forward
  /// Not for a plan to decide: it is saved where the backward needs it.
  bool always_saved = false;
  ValueId id = kNoValue;      ///< in the graph
  int32_t first_packing = 0;  ///< of Problem::packings
  int32_t packing_count = 0;
  bool always_packed = false;  ///< where it is saved, by its only packing
  friend bool operator==(const Value&, const Value&) = default;
};

/// A way to keep one value of the forward from its last use there to its first in the backward.
struct Packing {
  int32_t way = 0;    ///< Packings::ways
  int64_t bytes = 0;  ///< kept meanwhile
  int64_t time = 0;   ///< picoseconds: to pack and to unpack
  /// Beside the value and what is kept, while one is made of the other; PackCost.
  int64_t pack_scratch = 0;
  int64_t unpack_scratch = 0;
  friend bool operator==(const Packing&, const Packing&) = default;
};

/// A choice for a value fits into a byte.
inline constexpr int32_t kMostWays = 30;

struct Operation {
  int64_t time = 0;       ///< picoseconds, so that sums are exact
  bool backward = false;  ///< depends on a tangent, or must run in the backward
  bool required = false;  ///< runs in the forward whatever is saved
  bool again = true;      ///< may run once more, with the same result
  /// Kept from the forward for it to run again: the states of its generators.
  int64_t state_bytes = 0;
  int64_t scratch = 0;  ///< bytes that its kernel takes while it runs
  int32_t node = -1;    ///< position in Graph::nodes
  friend bool operator==(const Operation&, const Operation&) = default;
};

struct Problem {
  std::vector<Value> values;
  /// Of the forward first, then of the backward; each in the order in which they run.
  std::vector<Operation> operations;
  std::vector<Packing> packings;  ///< by value
  int32_t forward_count = 0;      ///< operations of the forward
  Rows reads;                     ///< by operation: values that some operation makes
  Rows makes;                     ///< by operation
  Rows readers;                   ///< by value: operations
  int64_t tangent_bytes = 0;      ///< there during the whole backward
  int64_t time = 0;               ///< picoseconds of forward and backward when nothing runs twice

  int32_t backward_count() const { return static_cast<int32_t>(operations.size()) - forward_count; }
  const Value& value(int32_t index) const { return values[static_cast<size_t>(index)]; }
  const Operation& operation(int32_t index) const { return operations[static_cast<size_t>(index)]; }
  const Packing& packing(int32_t index) const { return packings[static_cast<size_t>(index)]; }
  /// Packings that a plan may choose for a value: none for one that is always packed.
  std::span<const Packing> choosable_packings(int32_t index) const;
  /// A value of the forward that a plan may save or not.
  bool is_choice(int32_t index) const;
  /// Whether an operation of the backward reads it.
  bool is_read_in_backward(int32_t index) const;
  /// Whether one reads it, or the backward ends with it: a gradient.
  bool is_needed_in_backward(int32_t index) const;
  friend bool operator==(const Problem&, const Problem&) = default;
};

/// `joint`: verified, without dead code. `seconds`: by node. Throws GraphError when a result depends on a
/// tangent. Packings of results, gradients and what is written back are left out.
Problem make_problem(const Graph& joint, const std::vector<double>& seconds,
                     const ByteRules& rules = {}, const Packings& packings = {});

}  // namespace antegrad::budget
