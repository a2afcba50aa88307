#pragma once

/// \file
/// Which tests of a program run when it runs as a variant: with options that the environment
/// chooses (ANTEGRAD_TEST_MIN_CUT and others, see options.h).

namespace antegrad::testing {

/// Leaves those tests to run that the options change, and of these the sample that
/// ANTEGRAD_TEST_SAMPLE names: "2/5" is the second of five parts. A test's part depends on its name
/// alone, so it stays when other tests come or go. Says on stdout what runs. Without such options,
/// or with a --gtest_filter, everything runs that would.
///
/// Must come after InitGoogleTest. From then on, a test that compiles with tested_options() fails
/// when its suite is not in the list of those that options change.
void choose_tests();

}  // namespace antegrad::testing
