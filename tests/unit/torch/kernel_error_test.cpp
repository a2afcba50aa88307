// Kernel errors get a context and keep their type.

#include "runtime/kernel_error.h"

#include <antegrad/error.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace antegrad::testing {
namespace kernel_error_test {

// The error that arrives for `error`. Its text ends with the context.
template <class E>
std::string rethrown(const E& error) {
  try {
    try {
      throw error;
    } catch (...) {
      runtime::rethrow_with("in line 7");
    }
  } catch (const E& found) {
    return found.what();
  } catch (...) {
    ADD_FAILURE() << "another type";
  }
  return "";
}

TEST(KernelError, TypesThatCanBeMadeAgainGetTheContext) {
  EXPECT_EQ(rethrown(std::runtime_error("bad")), "bad\nin line 7");
  EXPECT_EQ(rethrown(std::out_of_range("bad")), "bad\nin line 7");
  EXPECT_EQ(rethrown(std::invalid_argument("bad")), "bad\nin line 7");
}

TEST(KernelError, LibtorchsErrorsAndOursGetItToo) {
  const auto torch_text = rethrown(c10::IndexError({"f", "file", 1}, "bad"));
  EXPECT_NE(torch_text.find("bad"), std::string::npos);
  EXPECT_NE(torch_text.find("in line 7"), std::string::npos);
  const auto ours = rethrown(BackwardError(ErrorText{"one thing", "another", "do this"}));
  EXPECT_NE(ours.find("another"), std::string::npos);
  EXPECT_NE(ours.find("in line 7"), std::string::npos);
}

struct Own : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(KernelError, AUsersTypeStaysAsItIs) { EXPECT_EQ(rethrown(Own("bad")), "bad"); }

}  // namespace kernel_error_test
}  // namespace antegrad::testing
