#include "compile/sleef.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "lower/eager_cpu.h"
#include "lower/inline_functions.h"

namespace antegrad {
namespace {

using lower::Capability;

/// What ATen runs, if it calls vector functions of Sleef. Without AVX2 it calls the C library's,
/// and there is nothing to compare.
std::optional<Capability> vector_capability() {
  const auto capability = lower::capability_beside(at::get_cpu_capability());
  return capability && lower::c_target(*capability).sleef ? capability : std::nullopt;
}

const void* symbol(std::string_view function, Capability capability) {
  void* const libtorch = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  return ::dlsym(libtorch, lower::sleef_symbol(function, capability).c_str());
}

TEST(Sleef, HasOurBits) {
  const auto capability = vector_capability();
  if (!capability) GTEST_SKIP() << "no vector functions of Sleef";
  EXPECT_TRUE(sleef_has_our_bits(*capability));
}

TEST(Sleef, AnotherFunctionHasNot) {
  const auto capability = vector_capability();
  if (!capability) GTEST_SKIP() << "no vector functions of Sleef";
  EXPECT_TRUE(has_our_bits("tanh", symbol("tanh", *capability), *capability));
  EXPECT_FALSE(has_our_bits("tanh", symbol("exp", *capability), *capability));
  EXPECT_FALSE(has_our_bits("exp", symbol("exp2", *capability), *capability));
}

}  // namespace
}  // namespace antegrad
