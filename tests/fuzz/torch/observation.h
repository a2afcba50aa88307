#pragma once

/// \file
/// What a call of a program, its backward and later writes show of themselves.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "check.h"
#include "verdict.h"
#include "world.h"

namespace antegrad::fuzz {

/// How a run ended.
enum class Raised : uint8_t { nothing, refusal, bug, other };

/// How a fact of one run must be that of the other. That of the two facts which allows more holds.
enum class Match : uint8_t {
  exact,
  or_at_the_start,      ///< an offset: eager's, or 0
  rounded,              ///< but for the last bits and the layout
  rounded_to_bfloat16,  ///< the same, where values were of that type on the way
  /// A gradient through memory that was written behind autograd's back: eager's is of the new data.
  any,
};

/// One thing to compare: a value or words.
struct Fact {
  Verdict::Kind kind;
  std::string what;
  std::string words;
  at::Tensor value;
  Match match = Match::exact;
};

/// How facts about gradients that are summed up over calls are called.
constexpr const char* kAccumulated = ".grad of leaf ";

/// What a call showed, in an order that is the same for each run of the program. Of a call that
/// failed: the state before it and, in as many facts, after it.
struct Observation {
  std::vector<Fact> facts;
  Raised raised = Raised::nothing;
  std::string moment, error;  ///< when it was raised, and its text
};

/// Calls it as call number `index` of the program says, and notes what shows.
Observation observe(const Program& program, World& world, const Callable& callable, size_t index);

}  // namespace antegrad::fuzz
