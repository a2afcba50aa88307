#pragma once

/// \file
/// Measures the rates of this machine (cost/rates.h), once per class of kernels and model of
/// device, and keeps them in a file (cost/rates_file.h).

#include <string>

#include "cost/machine.h"
#include "graph/graph.h"

namespace antegrad::measuring {

/// The machine that runs a graph, with rates for the graph's classes of kernels. What is not in
/// `<cache_dir>/kernel_rates.json` is timed first, in some tenths of a second. A damaged file is a
/// warning, and is replaced. Rates stay the same for the life of the process, whatever happens to
/// the file.
///
/// Sample calls run on the current stream. States of default generators are restored. Without
/// rates, as in the built-in table: classes that the device has no kernel for, and all of them
/// while a CUDA graph is captured. Thread-safe.
Machine calibrated_machine(const Graph& graph, const std::string& cache_dir);

}  // namespace antegrad::measuring
