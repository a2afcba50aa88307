#pragma once

/// \file
/// How long programs with generated kernels take to compile: in processes of their own, so that
/// none knows anything from before.

#include <cstdint>
#include <string>

namespace antegrad::bench {

/// Of a GPT with 12 layers (gpt12.h), with lowering=exact: passes, partition, kernels, programs.
struct LoweringTimes {
  double cold_ms = 0;          ///< with an empty folder of compiled files
  double new_size_ms = 0;      ///< then, in the same process, for a batch of another size
  int64_t new_size_files = 0;  ///< that the C compiler made for this
  double warm_ms = 0;          ///< in a second process, which finds the files of the first one
};

/// The word on the command line that makes this program one of those processes.
inline constexpr const char* kLoweringChild = "--compile-gpt12";

/// What that process does: prints one JSON object.
void run_lowering_child(int threads);

/// Runs the processes, this many times. Medians.
LoweringTimes lowering_times(int rounds);

}  // namespace antegrad::bench
