#pragma once

/// \file
/// The options that differential tests compile with.

#include <antegrad/options.h>

namespace antegrad::testing {

/// Graphs verified after each pass. ANTEGRAD_TEST_MIN_CUT, where it is set, chooses the minimum-cut partition
/// with these settings ("NAME=VALUE", apart by blanks; see partition/min_cut_options.h), so that a whole
/// suite runs with them.
Options tested_options();

/// Everything that can run again does: no ban that weighs time against memory.
MinCutOptions without_bans();

}  // namespace antegrad::testing
