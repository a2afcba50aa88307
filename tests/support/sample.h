#pragma once

/// \file
/// Selects the tests of a program that runs as a variant: with options that the environment chooses
/// (ANTEGRAD_TEST_MIN_CUT and others, see options.h).

namespace antegrad::testing {

/// Selects the tests that the options affect, and of these the sample that ANTEGRAD_TEST_SAMPLE
/// names: "2/5" is the second of five parts. The part of a test depends only on its name, so adding
/// or removing other tests does not move it. Prints the selection to stdout. Without such options,
/// or with a --gtest_filter, all selected tests run.
///
/// Must be called after InitGoogleTest. From then on, a test that compiles with tested_options()
/// fails if its suite is not in the list of affected suites.
void choose_tests();

}  // namespace antegrad::testing
