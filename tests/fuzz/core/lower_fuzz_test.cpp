// Random kernels: generated code against the interpreter, and the text form.

#include <antegrad/error.h>

#include "random_kernel.h"
#include "shrink.h"

namespace antegrad::testing {
namespace lower_fuzz_test {

using lower::Capability;
using lower::Kernel;

constexpr int kCallsOfAKernel = 8;
constexpr int kFarCalls = 2;  // of them

struct Case {
  uint64_t seed = 0;
  Kernel kernel;
  std::vector<KernelArguments> calls;
};

Case random_case(uint64_t seed) {
  RandomKernel random(seed);
  Case made{seed, random.make("k" + std::to_string(seed)), {}};
  for (int i = 0; i < kCallsOfAKernel; ++i) {
    made.calls.push_back(random.arguments(made.kernel, i < kFarCalls));
  }
  return made;
}

std::string difference(const Case& checked, const CompiledKernels& compiled) {
  for (size_t i = 0; i < checked.calls.size(); ++i) {
    const std::string found =
        run_difference(checked.kernel, compiled.function(checked.kernel.name), checked.calls[i],
                       checked.seed + i, RandomKernel::functions());
    if (!found.empty()) return fmt::format("call {}: {}", i, found);
  }
  return "";
}

std::string difference(const Case& checked, Capability capability) {
  const CompiledKernels compiled({&checked.kernel, 1}, capability);
  return compiled.error().empty() ? difference(checked, compiled) : compiled.error();
}

bool is_valid(const Kernel& kernel) {
  try {
    lower::verify(kernel);
    return true;
  } catch (const antegrad::Error&) {
    return false;
  }
}

/// Replaces instructions by constants as long as the kernel stays valid and fails.
Case smallest(Case failing, Capability capability) {
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (size_t id = failing.kernel.code.size(); id-- > 0;) {
      if (failing.kernel.code[id].op == lower::Op::constant) continue;
      Case candidate = failing;
      lower::Instruction& code = candidate.kernel.code[id];
      const uint64_t one = code.type == DType::boolean ? 1 : 0;
      code = {lower::Op::constant, code.type, {}, one, -1};
      if (!is_valid(candidate.kernel) || difference(candidate, capability).empty()) continue;
      failing = std::move(candidate);
      smaller = true;
    }
  }
  return failing;
}

TEST(LowerFuzz, GeneratedCodeAgreesWithTheInterpreter) {
  if (!has_compiler()) GTEST_SKIP() << "no C compiler: there is no cc";
  constexpr int kKernelsOfAFile = 12;
  const int files = long_tests() ? 100 : 1;
  for (int file = 0; file < files; ++file) {
    std::vector<Case> cases;
    std::vector<Kernel> kernels;
    for (int i = 0; i < kKernelsOfAFile; ++i) {
      cases.push_back(random_case(static_cast<uint64_t>(file * kKernelsOfAFile + i)));
      kernels.push_back(cases.back().kernel);
      ASSERT_NO_THROW(lower::verify(kernels.back())) << lower::to_text(kernels.back());
    }
    for (const Capability capability : capabilities()) {
      const CompiledKernels compiled(kernels, capability);
      ASSERT_EQ(compiled.error(), "");
      for (const Case& checked : cases) {
        const std::string found = difference(checked, compiled);
        if (found.empty()) continue;
        const Case small = smallest(checked, capability);
        const lower::CTarget& target = lower::c_target(capability);
        FAIL() << "seed " << checked.seed << ", " << target.name << ": " << found
               << "\nshrunk: " << difference(small, capability) << "\n"
               << lower::to_text(small.kernel) << lower::c_source({&small.kernel, 1}, target);
      }
    }
  }
}

TEST(LowerFuzz, TextRoundTrips) {
  const int cases = long_tests() ? 20000 : 1000;
  for (int seed = 0; seed < cases; ++seed) {
    const Kernel kernel = random_case(static_cast<uint64_t>(seed)).kernel;
    const std::string text = lower::to_text(kernel);
    const Kernel parsed = lower::parse_kernel(text);
    ASSERT_EQ(lower::to_text(parsed), text);
    ASSERT_TRUE(parsed == kernel) << text;
  }
}

}  // namespace lower_fuzz_test
}  // namespace antegrad::testing
