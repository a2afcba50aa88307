#pragma once

/// \file
/// The engine of a generator of the CPU, for code that draws in libtorch's place.

#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>

namespace antegrad::torch_compat {

inline constexpr int kMt19937Words = 624;

/// What draws change of the state of a Mersenne twister.
struct Mt19937 {
  uint32_t words[kMt19937Words];
  int32_t left;  ///< draws until the words are made anew, plus one
  int32_t next;  ///< the word that is drawn next
};

/// Calls `draw` with the engine's state and keeps what it changes. Takes the generator's lock.
/// Numbers that the generator keeps for later, such as the second of two normal ones, stay.
void draw_from_engine(at::Generator generator, const std::function<void(Mt19937&)>& draw);

}  // namespace antegrad::torch_compat
