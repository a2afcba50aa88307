#pragma once

/// \file
/// The result of comparing a program with eager.

#include <cstdint>
#include <string>

namespace antegrad::fuzz {

struct Verdict {
  /// Kinds of differences, in the order in which they are reported.
  enum class Kind : uint8_t {
    same,
    refused,         ///< a typed refusal of the call or the backward, with all state unchanged
    internal_error,  ///< an error that only a bug can raise
    error,           ///< only one of the two raises an error
    trace,           ///< a refusal that changed some state
    results,
    inputs,    ///< values after the call
    metadata,  ///< sizes, strides, requires_grad, is_leaf, ...
    aliases,   ///< which tensors are the same, share memory, or are views of each other
    versions,
    generator,
    gradients,
    later_writes,  ///< writes to results reach others
    eager_call,
    stand_ins,
  };
  Kind kind = Kind::same;
  std::string detail = {};
  bool approximate = false;  ///< gradients were equal only within a tolerance
  bool lenient = false;      ///< a second backward ran although eager refuses it
  bool coarse = false;       ///< a backward was refused that eager runs, since eager needs less

  bool failed() const { return kind != Kind::same && kind != Kind::refused; }
};
const char* to_string(Verdict::Kind kind);

}  // namespace antegrad::fuzz
