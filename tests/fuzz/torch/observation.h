#pragma once

/// \file
/// The observable effects of a call of a program, of its backward, and of later writes.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "check.h"
#include "verdict.h"
#include "world.h"

namespace antegrad::fuzz {

/// How a run ended.
enum class Raised : uint8_t { nothing, refusal, bug, other };

/// How closely a fact of one run must match that of the other. The more lenient one of the two
/// facts applies.
enum class Match : uint8_t {
  exact,
  or_at_the_start,      ///< an offset: eager's, or 0
  rounded,              ///< except for the last bits and the layout
  rounded_to_bfloat16,  ///< the same, if intermediate values were bfloat16
  /// A gradient through memory that was written without autograd's knowledge: eager uses the new
  /// data.
  any,
};

/// One observation: a value or text.
struct Fact {
  Verdict::Kind kind;
  std::string what;
  std::string words;
  at::Tensor value;
  Match match = Match::exact;
};

/// Prefix of the names of facts about gradients accumulated over calls.
constexpr const char* kAccumulated = ".grad of leaf ";

/// The observations of a call, in the same order for each run of the program. For a failed call:
/// the state before it and, as the same number of facts, after it.
struct Observation {
  std::vector<Fact> facts;
  Raised raised = Raised::nothing;
  std::string moment, error;  ///< when it was raised, and its text
};

/// Makes call number `index` as the program describes it, and records the observations.
Observation observe(const Program& program, World& world, const Callable& callable, size_t index);

}  // namespace antegrad::fuzz
