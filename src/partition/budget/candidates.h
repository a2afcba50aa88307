#pragma once

/// \file
/// The values that are worth deciding, and where in the forward they are alive.

#include <cstdint>
#include <span>
#include <vector>

#include "partition/budget/problem.h"

namespace antegrad::budget {

class Candidates {
 public:
  explicit Candidates(const Problem& problem);

  /// Choices that the backward needs, or from which such values are computed; ascending.
  const std::vector<int32_t>& values() const { return values_; }
  /// Those that are made at or before position `p` of the forward and read after it.
  std::span<const int32_t> crossing(int32_t p) const { return crossing_[p]; }
  /// Positions of the forward.
  int32_t positions() const { return crossing_.rows(); }

 private:
  std::vector<int32_t> values_;
  Rows crossing_;
};

}  // namespace antegrad::budget
