#pragma once

/// \file
/// The options that differential tests compile with.

#include <antegrad/checkpoint.h>
#include <antegrad/options.h>
#include <antegrad/saved_tensors.h>

#include <cstdint>
#include <optional>

namespace antegrad::testing {

/// Options that verify graphs after each pass. Environment variables change them, so that a whole
/// suite can run as a variant. ANTEGRAD_TEST_MIN_CUT selects the minimum-cut partition with these
/// settings ("NAME=VALUE", separated by blanks; see options/settings.h). ANTEGRAD_TEST_BUDGET sets
/// a memory budget as a share (Options::with_memory_share), ANTEGRAD_TEST_PRICED the partition by
/// the price of memory. ANTEGRAD_TEST_HOOKS ("bytes all": a name of exact_hooks() and a filter)
/// selects the saved tensors that TestedHooks pack.
/// ANTEGRAD_TEST_LOWERING sets Options::lowering, which is off otherwise: generated kernels are a
/// variant too.
Options tested_options();

/// Whether the environment chooses options, as in the variants of tests/CMakeLists.txt.
bool is_a_variant();
/// How often tested_options() was called.
int64_t options_asked_for();

/// A scope of lossless hooks around tested calls, if ANTEGRAD_TEST_HOOKS is set.
class TestedHooks {
 public:
  TestedHooks();

 private:
  std::optional<SavedTensorHooks> scope_;
};

/// A checkpoint around a tested callable, if ANTEGRAD_TEST_TAGS is set. Its policy is a
/// pseudo-random function of the operator's name and that number. Does nothing outside of a
/// capture.
class TestedBlock {
 public:
  TestedBlock();

 private:
  std::optional<detail::CapturedBlock> block_;
};

/// Recomputes everything that can be recomputed: no ban that weighs time against memory.
MinCutOptions without_bans();

}  // namespace antegrad::testing
