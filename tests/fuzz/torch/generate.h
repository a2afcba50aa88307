#pragma once

/// \file
/// Random programs. Each statement is tried on real tensors when it is added, so that programs run
/// without error (except a few that are meant to fail at their last statement) and values stay
/// small.

#include <set>

#include "operations.h"

namespace antegrad::fuzz {

/// The program of a seed; the same on every machine with the same libtorch.
Program generate(uint64_t seed);

/// The families that a program contains.
std::set<Family> families_of(const Program& program);

}  // namespace antegrad::fuzz
