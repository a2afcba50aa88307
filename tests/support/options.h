#pragma once

/// \file
/// The options that differential tests compile with.

#include <antegrad/checkpoint.h>
#include <antegrad/options.h>
#include <antegrad/saved_tensors.h>

#include <cstdint>
#include <optional>

namespace antegrad::testing {

/// Graphs verified after each pass. ANTEGRAD_TEST_MIN_CUT, where it is set, chooses the minimum-cut
/// partition with these settings ("NAME=VALUE", apart by blanks; see options/settings.h), so that a
/// whole suite runs with them; ANTEGRAD_TEST_BUDGET a memory budget, as a share
/// (Options::with_memory_share). ANTEGRAD_TEST_HOOKS ("bytes all": a name of exact_hooks() and a
/// filter) says which saved tensors TestedHooks stand for.
Options tested_options();

/// Whether the environment chooses options, as in the variants of tests/CMakeLists.txt.
bool is_a_variant();
/// How often tested_options() was called.
int64_t options_asked_for();

/// A scope of hooks around tested calls, where ANTEGRAD_TEST_HOOKS is set. They keep every bit.
class TestedHooks {
 public:
  TestedHooks();

 private:
  std::optional<SavedTensorHooks> scope_;
};

/// A checkpoint around a tested callable, where ANTEGRAD_TEST_TAGS is set: what its policy says of
/// an operator is drawn by the operator's name and that number. Nothing outside of a capture.
class TestedBlock {
 public:
  TestedBlock();

 private:
  std::optional<detail::CapturedBlock> block_;
};

/// Everything that can run again does: no ban that weighs time against memory.
MinCutOptions without_bans();

}  // namespace antegrad::testing
