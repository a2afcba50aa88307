#pragma once

/// \file
/// The head of a C file of kernels: vector types and small functions on them, each printed once and
/// only if a kernel uses it.
///
/// Names: f32x16 is a vector of 16 f32; f32x16m the same in memory, aligned as an f32. bf16 and f16
/// travel as u16. A bool in a vector is a mask, an integer of the size of what was compared.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lower/c_target.h"
#include "lower/kernel.h"

namespace antegrad::lower {

/// The C type of an element in memory and in vectors: "f32", "u16" for halves, "u8" for bools.
std::string_view element_type(DType type);
std::string mask_element(int64_t bytes);

class CHead {
 public:
  explicit CHead(const CTarget& target);

  const CTarget& target() const { return target_; }
  const std::string& text() const { return text_; }

  /// The name of a type or function, which is defined if it was not yet.
  std::string vector(std::string_view element, int32_t lanes);
  std::string vector(DType type, int32_t lanes) { return vector(element_type(type), lanes); }
  std::string mask(int64_t bytes, int32_t lanes) { return vector(mask_element(bytes), lanes); }
  std::string unsigned_vector(DType type, int32_t lanes);

  std::string splat(std::string_view element, int32_t lanes);
  std::string lane_numbers(std::string_view element, int32_t lanes);  ///< a value: 0, 1, 2, ...
  std::string first_lanes(int64_t bytes, int32_t lanes);              ///< mask of lanes below n
  std::string select(std::string_view element, int32_t lanes);
  /// Memory: `part` reads the first n lanes of consecutive elements, `stride` n at a distance,
  /// `gather` at indices; `put` and `put_stride` write.
  std::string part(std::string_view element, int32_t lanes);
  std::string stride(std::string_view element, int32_t lanes);
  std::string gather(std::string_view element, int32_t lanes);
  std::string put(std::string_view element, int32_t lanes);
  std::string put_stride(std::string_view element, int32_t lanes);
  /// Writes a whole vector, past the caches where its last argument says so.
  std::string put_far(std::string_view element, int32_t lanes);
  /// fma, scale, min, max, sqrt, floor, ceil, trunc or round of f32 or f64.
  std::string arithmetic(Op op, DType type, int32_t lanes);
  std::string extreme(Op op, DType type, int32_t lanes);  ///< minimum, maximum
  /// From f32 or f64 to i32 or i64, as the instruction does it.
  std::string truncate(DType from, DType to, int32_t lanes);
  std::string u32_from_u16(int32_t lanes);
  std::string u32_from_u8(int32_t lanes);
  std::string widen(DType half, int32_t lanes);
  /// To the nearest bf16, in f32.
  std::string round_wide_bf16(uint64_t nan, int32_t lanes);
  std::string round_half(DType half, uint64_t nan, int32_t lanes);
  /// A call of the kernel's function with vectors; those that do not take them whole also take the
  /// number of live lanes.
  std::string call(const Function& function, int32_t lanes);
  std::string cascade_power();
  /// Adds an array, in whole vectors, to another one, and makes it zero.
  std::string add_strip(DType type, int32_t lanes);
  /// Sets the number of threads of MKL's functions that this thread calls, and returns the last
  /// one. With two threads, VML's take a microsecond to share out 128 elements.
  std::string library_threads();
  std::string short_sum(DType type);
  std::string moments(DType type, int32_t lanes, Fused fused);

  /// Declares or defines the function's symbol.
  void declare(const Function& function);
  /// Defines something once. Must not be asked to define it in two ways.
  void define(const std::string& name, const std::string& text);

 private:
  /// GCC's function for the first lanes of a vector in memory, and its type of vectors; empty if
  /// the target has none.
  struct Masked {
    std::string builtin;
    std::string type;
  };
  /// Defines `scale` of one number.
  void define_scaled(DType type);
  Masked masked(std::string_view access, std::string_view element, int32_t lanes);

  const CTarget& target_;
  std::map<std::string, std::string> defined_;
  std::string text_;
};

/// Whether the helper of call() takes the number of live lanes.
inline bool counts_lanes(const Function& function) { return function.form != CallForm::vector; }

}  // namespace antegrad::lower
