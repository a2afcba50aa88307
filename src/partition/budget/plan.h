#pragma once

/// \file
/// A plan: a decision for each value that the backward needs, and its cost.

#include <cstdint>
#include <limits>
#include <vector>

#include "partition/budget/problem.h"

namespace antegrad::budget {

/// The decision for a value that the backward needs.
using Choice = uint8_t;
inline constexpr Choice kRecompute = 0;  ///< recomputed when it is first needed, then kept
inline constexpr Choice kOpen = 254;  ///< not decided yet; only during the search for a best plan
inline constexpr Choice kSave = 255;
/// kFirstPacking + i: saved, packed in way i (Packing::way).
inline constexpr Choice kFirstPacking = 224;
constexpr bool is_packing(Choice choice) { return choice >= kFirstPacking && choice < kOpen; }
static_assert(kFirstPacking + kMostWays == kOpen);
constexpr Choice packed_by(const Packing& packing) {
  return static_cast<Choice>(kFirstPacking + packing.way);
}
constexpr int32_t way_of(Choice choice) { return choice - kFirstPacking; }
/// Whether it is kept from the forward, packed or not.
constexpr bool is_kept(Choice choice) { return choice == kSave || is_packing(choice); }
/// Any other choice: recomputed, and freed while so many operations of the backward do not need
/// it.
constexpr bool is_window(Choice choice) { return choice > kRecompute && choice < kFirstPacking; }

/// By value of the problem. Only the entries of Problem::is_choice() matter. Packings are ways of
/// that value.
using Plan = std::vector<Choice>;

struct Change {
  int32_t value;
  Choice choice;
};

struct Measure {
  int64_t peak = 0;
  int64_t extra = 0;  ///< picoseconds above those without recomputation
  double excess = 0;  ///< bytes above the budget, summed over all steps
};
/// For a plan that recomputes again and again; it is not measured.
inline constexpr Measure kHopeless{std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<double>::infinity()};

/// Whether a plan that chooses this keeps the value for the backward.
inline bool is_saved(const Value& value, Choice choice) {
  return value.always_saved || (!value.never_saved && is_kept(choice));
}

/// The packing of a kept value, in Problem::packings; -1: none. Other choices have none.
int32_t packing_of(const Problem& problem, int32_t value, Choice choice);
/// Bytes that a kept value takes from forward to backward.
int64_t kept_bytes(const Problem& problem, int32_t value, Choice choice);

/// Saves all that the backward reads: the plan without a budget.
Plan eager_plan(const Problem& problem);

}  // namespace antegrad::budget
