// Generated code for NEON against the interpreter.

#include <set>

#include "emulated_kernels.h"
#include "fuzz/core/lowered_graph.h"
#include "fuzz/core/random_group.h"
#include "fuzz/core/random_kernel.h"
#include "fuzz/core/shrink.h"

namespace antegrad::testing {
namespace neon_test {

using lower::Kernel;

constexpr int kCallsOfAKernel = 4;

/// Kernels of one file, and calls of them.
class File {
 public:
  void add(Kernel kernel, lower::HostFunctions functions, std::vector<KernelArguments> calls,
           uint64_t seed) {
    for (KernelArguments& call : calls) {
      calls_.push_back({kernels_.size(), std::move(call), seed + calls_.size()});
    }
    kernels_.push_back(std::move(kernel));
    functions_.push_back(std::move(functions));
  }

  void expect_no_difference() const {
    const EmulatedKernels emulated(kernels_);
    ASSERT_EQ(emulated.error(), "");
    const auto differences = emulated.differences(calls_, functions_);
    for (size_t i = 0; i < calls_.size(); ++i) {
      const Kernel& kernel = kernels_[calls_[i].kernel];
      ASSERT_EQ(differences[i], "")
          << lower::to_text(kernel)
          << lower::c_source({&kernel, 1}, lower::c_target(lower::Capability::neon));
    }
  }

 private:
  std::vector<Kernel> kernels_;
  std::vector<lower::HostFunctions> functions_;  // by kernel
  std::vector<EmulatedCall> calls_;
};

class Neon : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = EmulatedKernels::missing_tool();
    if (!missing.empty()) GTEST_SKIP() << "not installed: " << missing;
  }
};

TEST_F(Neon, CodeOfRandomKernelsAgreesWithTheInterpreter) {
  constexpr int kKernelsOfAFile = 10;
  const int files = long_tests() ? 40 : 1;
  for (int file = 0; file < files; ++file) {
    File made;
    for (int i = 0; i < kKernelsOfAFile; ++i) {
      const auto seed = static_cast<uint64_t>(file * kKernelsOfAFile + i);
      SCOPED_TRACE(seed);
      RandomKernel random(seed);
      Kernel kernel = random.make("k" + std::to_string(seed));
      std::vector<KernelArguments> calls;
      for (int call = 0; call < kCallsOfAKernel; ++call) {
        calls.push_back(random.arguments(kernel, /*far=*/call == 0));
      }
      made.add(std::move(kernel), RandomKernel::functions(), std::move(calls), seed);
    }
    made.expect_no_difference();
    if (HasFatalFailure()) FAIL() << "file " << file;
  }
}

TEST_F(Neon, CodeOfRandomGroupsAgreesWithTheInterpreter) {
  constexpr int kGraphsOfAFile = 12;
  const lower::EagerCpu cpu{lower::Capability::neon, lower::OneDnn::off, 2};
  const int files = long_tests() ? 40 : 1;
  int kernels = 0;
  for (int file = 0; file < files; ++file) {
    File made;
    std::set<std::string> names;
    for (int i = 0; i < kGraphsOfAFile; ++i) {
      const auto seed = static_cast<uint64_t>(file * kGraphsOfAFile + i);
      const auto lowered =
          lower::kernel_graph(RandomGroup(seed).graph(), cpu, {}, lower::Level::close);
      for (const lower::KernelOfGroup& group : lowered.kernels) {
        Kernel kernel = group.kernel.kernel;
        // Indices must lie inside of what they count in.
        if (!group.kernel.bounds.empty() || !names.insert(kernel.name).second) continue;
        lower::HostFunctions functions = stand_ins(kernel);
        made.add(std::move(kernel), std::move(functions), {{group.kernel.numbers}}, seed);
        ++kernels;
      }
    }
    made.expect_no_difference();
    if (HasFatalFailure()) FAIL() << "file " << file;
  }
  EXPECT_GT(kernels, files * kGraphsOfAFile / 2) << "graphs of which no kernels are made";
}

TEST_F(Neon, ExactKernelsAreNotMade) {
  const lower::EagerCpu cpu{lower::Capability::neon};
  const auto lowered = lower::kernel_graph(RandomGroup(1).graph(), cpu);
  EXPECT_TRUE(lowered.kernels.empty());
}

}  // namespace neon_test
}  // namespace antegrad::testing
