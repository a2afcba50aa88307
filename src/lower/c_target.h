#pragma once

/// \file
/// What C is printed for: the width of vectors and the instructions of a capability of a CPU. The
/// result of a kernel does not depend on it.

#include <cstdint>
#include <optional>
#include <string_view>

#include "lower/kernel.h"

namespace antegrad::lower {

/// Instructions of x86-64, by the words of ATEN_CPU_CAPABILITY.
enum class Capability : uint8_t { baseline, avx2, avx512 };

struct CTarget {
  Capability capability = Capability::baseline;
  std::string_view name;  ///< "default", "avx2", "avx512"
  int32_t vector_bytes;   ///< of a register
};

const CTarget& c_target(Capability capability);
std::optional<Capability> capability_from_name(std::string_view name);

/// The expression of GCC that computes `op` on vectors a, b and c of `bytes`; empty if the target
/// has none.
std::string_view builtin_of(const CTarget& target, Op op, DType type, int32_t bytes);

}  // namespace antegrad::lower
