#pragma once

/// \file
/// Two observations of one program: eager's and that of the code under test.

#include <optional>

#include "observation.h"
#include "verdict.h"

namespace antegrad::fuzz {

/// The first difference, of the most important kind. Sets `approximate` if a tolerance was needed.
std::optional<Verdict> first_difference(const Observation& eager, const Observation& found,
                                        bool& approximate);

/// The verdict if only one of the two raised an error; nothing if both did, at the same point.
std::optional<Verdict> compare_errors(const Observation& eager, const Observation& found);

/// Whether eager refuses a backward that the program can run, since the program needs nothing that
/// is gone. Eager refuses a second backward through an operator that saved something, even if the
/// gradient does not need it; a compiled region refuses it only if it needs a freed value. Likewise
/// for values written since they were saved: the program's gradient is that of the values at the
/// call.
bool needs_nothing_that_is_gone(const Observation& eager, const Observation& found);

/// Whether the backward of a later call was refused because it passes through the region of an
/// earlier call that saved a value written since. In eager it may take another path: a region is
/// one node, which connects each gradient to each argument.
bool comes_by_what_is_gone(const Observation& eager, const Observation& found, size_t call);

}  // namespace antegrad::fuzz
