#pragma once

/// \file
/// A plan: what becomes of each value that the backward needs; and what it costs.

#include <cstdint>
#include <limits>
#include <vector>

#include "partition/budget/problem.h"

namespace antegrad::budget {

/// What becomes of a value that the backward needs.
using Choice = uint8_t;
inline constexpr Choice kRecompute = 0;  ///< computed again when it is first needed, then kept
inline constexpr Choice kOpen = 254;     ///< not decided yet: only while a best plan is looked for
inline constexpr Choice kSave = 255;
/// kFirstPacking + i: saved as way i packs it (Packing::way).
inline constexpr Choice kFirstPacking = 224;
constexpr bool is_packing(Choice choice) { return choice >= kFirstPacking && choice < kOpen; }
static_assert(kFirstPacking + kMostWays == kOpen);
constexpr Choice packed_by(const Packing& packing) {
  return static_cast<Choice>(kFirstPacking + packing.way);
}
constexpr int32_t way_of(Choice choice) { return choice - kFirstPacking; }
/// Whether it is there from the forward, packed or not.
constexpr bool is_kept(Choice choice) { return choice == kSave || is_packing(choice); }
/// Any other: computed again, and forgotten while so many operations of the backward do not need it.
constexpr bool is_window(Choice choice) { return choice > kRecompute && choice < kFirstPacking; }

/// By value of the problem. Only those of Problem::is_choice() matter. Packings are ways that the value has.
using Plan = std::vector<Choice>;

struct Change {
  int32_t value;
  Choice choice;
};

struct Measure {
  int64_t peak = 0;
  int64_t extra = 0;  ///< picoseconds more than when nothing runs twice
  double excess = 0;  ///< bytes over the budget, summed over all steps
};
/// Of a plan that runs things again and again: its measure is not worked out.
inline constexpr Measure kHopeless{std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<double>::infinity()};

/// The packing in which a kept value waits for the backward, of Problem::packings; -1: as it is. No other choice has one.
int32_t packing_of(const Problem& problem, int32_t value, Choice choice);
/// Bytes that a kept value takes from forward to backward.
int64_t kept_bytes(const Problem& problem, int32_t value, Choice choice);

/// Saves all that the backward reads: what runs without a budget.
Plan eager_plan(const Problem& problem);

}  // namespace antegrad::budget
