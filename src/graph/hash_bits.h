#pragma once

/// \file
/// The mixing step shared by hand-written hashes of this folder.

#include <cstdint>

namespace antegrad {

/// Folds `word` into `state`. The same in each process, so results may be stored.
constexpr uint64_t mix_bits(uint64_t state, uint64_t word) {
  // The finaliser of splitmix64 over a multiplicative combination. Measured to be good enough for
  // hash tables. The structural hash of a graph does not use it.
  uint64_t x = state * 0x9E3779B97F4A7C15ULL + word + 0x632BE59BD9B4E019ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace antegrad
