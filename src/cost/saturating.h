#pragma once

/// \file
/// Sums and products that end at the largest int64_t, for counts of operations and bytes.

#include <cstdint>
#include <limits>

namespace antegrad {

inline int64_t times(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<int64_t>::max() : result;
}

inline int64_t plus(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::numeric_limits<int64_t>::max() : result;
}

}  // namespace antegrad
