#include <antegrad/error.h>

#include <gtest/gtest.h>

#include "graphs.h"

namespace antegrad::testing {
namespace error_test {

TEST(Error, SaysWhatWasExpectedFoundAndWhatToDo) {
  const OptionError error(ErrorText{"a ratio from 0 to 1", "1.5", "use \"1\" to save everything"});
  EXPECT_STREQ(error.what(),
               "expected a ratio from 0 to 1; found 1.5; use \"1\" to save everything");
}

TEST(Error, LeavesOutAnEmptyRemedy) {
  EXPECT_STREQ(GraphError(ErrorText{"a number", "a word", ""}).what(),
               "expected a number; found a word");
}

TEST(Error, CaptureErrorsNameTheOperator) {
  const DataDependentError error("aten::item", {"a tensor", "a number", ""});
  EXPECT_EQ(error.op(), "aten::item");
  EXPECT_EQ(std::string(error.what()).find("aten::item: "), 0u);
  EXPECT_THROW(throw error, CaptureError);
  EXPECT_THROW(throw error, Error);
}

TEST(Error, AFailedCheckIsAnInternalErrorWithPlaceAndNote) {
  expect_error<InternalError>([] { AG_CHECK(1 + 1 == 3, "arithmetic is broken"); },
                              "arithmetic is broken");
  expect_error<InternalError>([] { AG_CHECK(false, "x"); }, "error_test.cpp");
}

TEST(Error, AnInternalErrorSaysOnceHowToShrinkItsGraph) {
  const InternalError error("a broken rule");
  const std::string text = InternalError(std::string("after a pass: ") + error.what()).what();
  EXPECT_EQ(text.find("after a pass: a broken rule; "), 0U) << text;
  const auto found = text.find("antegrad minify DIR/00-capture.agraph");
  ASSERT_NE(found, std::string::npos) << text;
  EXPECT_EQ(text.find("antegrad minify", found + 1), std::string::npos) << text;
}

}  // namespace error_test
}  // namespace antegrad::testing
