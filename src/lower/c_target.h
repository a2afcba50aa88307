#pragma once

/// \file
/// What kernels are printed for: the width of vectors and the instructions of a capability of a
/// CPU, or NVIDIA's GPUs. The result of a kernel does not depend on it.

#include <cstdint>
#include <optional>
#include <string_view>

#include "lower/kernel.h"

namespace antegrad::lower {

/// Instructions of x86-64, by the words of ATEN_CPU_CAPABILITY, those of AArch64, and of GPUs.
enum class Capability : uint8_t { baseline, avx2, avx512, neon, cuda };

/// Whether who has the instructions `has` also has those of `needs`.
constexpr bool includes(Capability has, Capability needs) {
  return has == needs || (has < Capability::neon && needs < has);
}

struct CTarget {
  Capability capability = Capability::baseline;
  std::string_view name;  ///< "default", "avx2", "avx512", "neon"
  int32_t vector_bytes;   ///< of a register
  /// Whose formulas of recipes it takes at Level::close.
  Capability formulas;
  /// Whether recipes say what eager computes there; otherwise there are no exact kernels.
  bool exact = true;
  bool fuses = true;  ///< whether there is an instruction for fused multiply-add
  /// Whose vector functions are called, besides those of the C library.
  bool sleef = true;
  /// Whether exp and tanh of vectors are printed as arithmetic; otherwise they are calls, too.
  bool in_line = true;
  bool mkl = true;
  /// Whether the instruction makes the smallest integer of a number that no integer is equal to.
  bool truncates_to_least = true;
  bool selects_f64 = true;      ///< whether GCC 12 selects elements of 8 bytes in vectors
  std::string_view fence = {};  ///< after stores past the caches; empty: there are none
};

const CTarget& c_target(Capability capability);
std::optional<Capability> capability_from_name(std::string_view name);

/// The expression of GCC that computes `op` on vectors a, b and c of `bytes`; empty if the target
/// has none.
std::string_view builtin_of(const CTarget& target, Op op, DType type, int32_t bytes);

}  // namespace antegrad::lower
