#pragma once

/// \file
/// The rules of the minimum-cut partition: which steps of the forward are not run again, and what it
/// costs to save what a step makes. Each is a small function with a name and a switch, in a table in
/// rules.cpp; the first one that applies decides, and its name is what reports show.

#include <string_view>
#include <vector>

#include "partition/min_cut.h"
#include "partition/steps.h"

namespace antegrad {

/// By step: the rule that bans running it again, "" where none does. Inputs are banned by "input".
using Bans = std::vector<std::string_view>;
Bans ban_recomputation(const StepGraph& steps, const MinCutOptions& options);

struct Weight {
  double bytes = 0;  ///< infinite: cannot be saved
  std::string_view rule;
};
/// What it costs to save what the step makes.
Weight weight_of_saving(const StepGraph& steps, const MinCutOptions& options, int32_t step);

}  // namespace antegrad
