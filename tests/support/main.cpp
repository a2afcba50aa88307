// The main program of tests that also run as variants.

#include <gtest/gtest.h>

#include "support/sample.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  antegrad::testing::choose_tests();
  return RUN_ALL_TESTS();
}
