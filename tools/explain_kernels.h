#pragma once

/// \file
/// `antegrad explain --kernels`: what the option `lowering` would generate for saved graphs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "planning.h"

namespace antegrad::cli {

struct KernelOptions {
  bool wanted = false;
  std::string capability;  ///< empty: this machine's
  int64_t threads = 0;     ///< 0: as many as eager would take here
  std::string source;      ///< "ir", "c"; empty: tables
  std::string name;        ///< of kernels, or how it starts
};

/// Adds --kernels, --capability, --threads, --source and --kernel.
void add_kernel_options(CLI::App& command, KernelOptions& options);

/// Writes to standard output. `plan`: how joint graphs are divided; its file is not read.
void explain_kernels(const std::vector<std::string>& files, const PlanOptions& plan,
                     const KernelOptions& options, size_t most, bool json);

}  // namespace antegrad::cli
