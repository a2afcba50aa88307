// Errors of a backward pass, translated for a front end.

#include "runtime/front_errors.h"

#include <gtest/gtest.h>

#include <string>

namespace antegrad::testing {
namespace front_errors_test {

struct OfTheFront {
  std::string text;
};

void hand_over() {
  try {
    throw BackwardError(ErrorText{"a gradient", "none", "ask again"});
  } catch (const Error& error) {
    runtime::rethrow_for_front(error);
  }
}

TEST(FrontErrors, WithoutAFrontAnErrorKeepsItsType) { EXPECT_THROW(hand_over(), BackwardError); }

TEST(FrontErrors, AFrontReplacesIt) {
  runtime::set_throw_for_front([](const Error& error) { throw OfTheFront{error.what()}; });
  try {
    hand_over();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const OfTheFront& error) {
    EXPECT_NE(error.text.find("a gradient"), std::string::npos);
  }
  runtime::set_throw_for_front(nullptr);
  EXPECT_THROW(hand_over(), BackwardError);
}

TEST(FrontErrors, AFrontMayLeaveItAsItIs) {
  runtime::set_throw_for_front([](const Error&) {});
  EXPECT_THROW(hand_over(), BackwardError);
  runtime::set_throw_for_front(nullptr);
}

}  // namespace front_errors_test
}  // namespace antegrad::testing
