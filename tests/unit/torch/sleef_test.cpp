#include "compile/sleef.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "lower/inline_functions.h"

namespace antegrad {
namespace {

using lower::Capability;

/// ATen's capability, in the words of lower::Capability; nothing without vectors of Sleef.
std::optional<Capability> vector_capability() {
  std::string name = at::get_cpu_capability();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto capability = lower::capability_from_name(name);
  return capability == Capability::baseline ? std::nullopt : capability;
}

const void* symbol(std::string_view function, Capability capability) {
  void* const libtorch = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  return ::dlsym(libtorch, lower::sleef_symbol(function, capability).c_str());
}

TEST(Sleef, HasOurBits) {
  const auto capability = vector_capability();
  if (!capability) GTEST_SKIP() << "no AVX2";
  EXPECT_TRUE(sleef_has_our_bits(*capability));
}

TEST(Sleef, AnotherFunctionHasNot) {
  const auto capability = vector_capability();
  if (!capability) GTEST_SKIP() << "no AVX2";
  EXPECT_TRUE(has_our_bits("tanh", symbol("tanh", *capability), *capability));
  EXPECT_FALSE(has_our_bits("tanh", symbol("exp", *capability), *capability));
  EXPECT_FALSE(has_our_bits("exp", symbol("exp2", *capability), *capability));
}

}  // namespace
}  // namespace antegrad
