#pragma once

/// \file
/// Where an eager step spends its time, by operators.

#include <functional>
#include <map>
#include <string>

namespace antegrad::bench {

/// Milliseconds that each operator of libtorch took itself, without those that it called, while
/// `run` ran, on all threads. Names such as "aten::mul".
std::map<std::string, double> operator_times(const std::function<void()>& run);

/// Whether an operator is a matrix product, a convolution or attention, which generated kernels
/// leave to libraries.
bool is_library_call(const std::string& name);

}  // namespace antegrad::bench
