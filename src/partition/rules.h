#pragma once

/// \file
/// The rules of the minimum-cut partition: which steps of the forward are not recomputed, and what
/// saving the result of a step costs. Each is a small function with a name and a switch, in a
/// table in rules.cpp. The first one that applies decides, and reports show its name.

#include <string_view>
#include <vector>

#include "partition/min_cut.h"
#include "partition/steps.h"

namespace antegrad {

/// By step: the rule that bans recomputation; "" if there is none. Inputs are banned by "input".
using Bans = std::vector<std::string_view>;
Bans ban_recomputation(const StepGraph& steps, const MinCutOptions& options);

/// Whether a memory budget may recompute the node although a rule bans it: the rule saves time,
/// and the node gives the same bits again. False for unknown operators, and for draws that are
/// smaller than the generator state that would be saved for them.
bool may_lift_ban(const StepGraph& steps, const MinCutOptions& options, int32_t step);

struct Weight {
  double bytes = 0;  ///< infinite: cannot be saved
  std::string_view rule;
};
/// The cost of saving the result of a step.
Weight weight_of_saving(const StepGraph& steps, const MinCutOptions& options, int32_t step);

}  // namespace antegrad
