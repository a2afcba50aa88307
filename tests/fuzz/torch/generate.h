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

/// A program that is called with several sizes of its arguments, and computes with sizes. Each
/// declared size is a parameter; the calls give some of them other numbers, 0, 1 and equal ones
/// among them.
Program generate_sized(uint64_t seed);

/// The families that a program contains.
std::set<Family> families_of(const Program& program);

}  // namespace antegrad::fuzz
