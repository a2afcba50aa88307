#pragma once

/// \file
/// The rows of a step: its time and peak, beside those of the same step in eager.

#include <functional>
#include <string>

#include "common/harness.h"

namespace antegrad::bench {

struct StepBesideEager {
  std::function<void()> step, eager;
  std::function<void()> clear;  ///< frees gradients: peaks are those of a step without any
};

/// Adds `<prefix>ratio_to_eager`, `<prefix>step_ms` and `<prefix>peak_mib` of a case, on the CPU.
void add_step_rows(Bench& bench, const std::string& case_name, const std::string& prefix,
                   int rounds, const StepBesideEager& steps);

}  // namespace antegrad::bench
