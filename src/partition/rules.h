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

/// Whether a memory budget may have the node run again although some rule bans that: the rule saves time, and the
/// node gives the same bits again. Not for operators of which nothing is known, and draws that are smaller than the
/// state that would be saved for them.
bool may_lift_ban(const StepGraph& steps, const MinCutOptions& options, int32_t step);

struct Weight {
  double bytes = 0;  ///< infinite: cannot be saved
  std::string_view rule;
};
/// What it costs to save what the step makes.
Weight weight_of_saving(const StepGraph& steps, const MinCutOptions& options, int32_t step);

}  // namespace antegrad
