#pragma once

/// \file
/// Compiled kernels and what is known of them, for machines without a compiler.

#include <map>
#include <string>
#include <vector>

#include "kernels/compiler.h"

namespace antegrad::kernels {

struct CompiledKernels {
  Compiler compiler;     ///< that made the libraries; without a command if there are none
  std::string made_for;  ///< Source::made_for where the facts were found
  /// By code_of() (build.h), the bytes of shared libraries.
  std::map<std::string, std::string> libraries;
  std::vector<std::string> facts;  ///< lines of Proofs
  friend bool operator==(const CompiledKernels&, const CompiledKernels&) = default;
};

}  // namespace antegrad::kernels
