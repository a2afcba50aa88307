#pragma once

/// \file
/// Two observations of one program, eager's and that of what is under test.

#include <optional>

#include "observation.h"
#include "verdict.h"

namespace antegrad::fuzz {

/// The first difference, of the kind that comes first. Sets `approximate` when a tolerance was
/// needed.
std::optional<Verdict> first_difference(const Observation& eager, const Observation& found,
                                        bool& approximate);

/// The verdict when one of the two raised an error; nothing when both did, at the same moment.
std::optional<Verdict> compare_errors(const Observation& eager, const Observation& found);

/// Whether eager refuses a backward that the program can do, since it needs nothing that is gone.
/// Eager refuses a second one through an operator that had saved something, even if the gradient
/// does not need it; a compiled region refuses it when it needs what was freed. Likewise what was
/// written since it was saved: the program's gradient is that of the call's values.
bool needs_nothing_that_is_gone(const Observation& eager, const Observation& found);

/// Whether a later call's backward was refused since it came by an earlier call's region that saved
/// what was written since. In eager it may not come by: a region is one node, through which each
/// gradient leads to each argument.
bool comes_by_what_is_gone(const Observation& eager, const Observation& found, size_t call);

}  // namespace antegrad::fuzz
