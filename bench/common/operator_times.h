#pragma once

/// \file
/// Where a step spends its time, by operators.

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace antegrad::bench {

struct OperatorTime {
  double ms = 0;  ///< of the operator itself, without those that it called
  int64_t calls = 0;
};
using OperatorTimes = std::map<std::string, OperatorTime>;  ///< by name, such as "aten::mul"

/// What each operator of libtorch took while `step` ran, on all threads: of each one the shortest
/// of the times in `steps` runs, after one that is not counted. What a library call calls is part
/// of it, such as the copy of a bias that `addmm` adds to.
OperatorTimes operator_times(const std::function<void()>& step, int steps);

/// Whether an operator is a matrix product, a convolution or attention, or a recurrent network,
/// which consists of matrix products. Generated kernels leave these to libraries.
bool is_library_call(const std::string& name);

/// Milliseconds of all operators that are no library calls.
double outside_library_calls(const OperatorTimes& times);

/// A table for people: operators that are no library calls by falling time in `eager`, with their
/// times and calls there and in `compiled`, where those that kernels replace are missing.
std::string operator_table(const OperatorTimes& eager, const OperatorTimes& compiled);

}  // namespace antegrad::bench
