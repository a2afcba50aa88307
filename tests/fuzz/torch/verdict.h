#pragma once

/// \file
/// What comparing a program with eager comes to.

#include <cstdint>
#include <string>

namespace antegrad::fuzz {

struct Verdict {
  /// What differs first, in this order.
  enum class Kind : uint8_t {
    same,
    refused,         ///< a typed refusal, from the call or from backward; everything is as it was
    internal_error,  ///< an error that only a bug can raise
    error,           ///< one raises an error where the other does not
    trace,           ///< a refusal that left something behind
    results,
    inputs,    ///< values after the call
    metadata,  ///< sizes, strides, requires_grad, is_leaf, ...
    aliases,   ///< who is whom, who shares memory, who is whose view
    versions,
    generator,
    gradients,
    later_writes,  ///< writes to results reach others
    eager_call,
    stand_ins,
  };
  Kind kind = Kind::same;
  std::string detail = {};
  bool approximate = false;  ///< gradients were the same only within a tolerance
  bool lenient = false;      ///< a second backward ran that eager refuses
  bool coarse = false;       ///< a backward was refused that ran in eager, through less

  bool failed() const { return kind != Kind::same && kind != Kind::refused; }
};
const char* to_string(Verdict::Kind kind);

}  // namespace antegrad::fuzz
