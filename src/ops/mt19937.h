#pragma once

/// \file
/// The Mersenne twister of libtorch's generator on the CPU, as blocks of words instead of one
/// number at a time (Matsumoto and Nishimura, ACM TOMACS 8(1), 1998).

#include <cstdint>

#include "torch_compat/cpu_engine.h"

namespace antegrad::ops {

using torch_compat::kMt19937Words;
using torch_compat::Mt19937;

/// Bytes of the widest vectors that this CPU has and draw_bools() knows: 64, 32 or 16.
int widest_vector();

/// Draws `count` bools, each true with `probability`, as `bernoulli_` does in memory of any type:
/// two words an element, which is true where their 53 low bits are below probability * 2^53.
void draw_bools(Mt19937& state, double probability, bool* to, int64_t count,
                int vector_bytes = widest_vector());

}  // namespace antegrad::ops
