#include "explain/time_text.h"

#include <gtest/gtest.h>

namespace antegrad {
namespace time_text_test {

TEST(TimeText, HasThreeDigitsAndTheUnitThatSuits) {
  EXPECT_EQ(time_text(0), "0 s");
  EXPECT_EQ(time_text(1.5), "1.50 s");
  EXPECT_EQ(time_text(0.0384), "38.4 ms");
  EXPECT_EQ(time_text(450e-6), "450 us");
  EXPECT_EQ(time_text(-2.01e-3), "-2.01 ms");
  EXPECT_EQ(time_text(3e-10), "0.30 ns");
}

}  // namespace time_text_test
}  // namespace antegrad
