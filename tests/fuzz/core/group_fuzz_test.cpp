// Random forwards: kernels of groups against their nodes, one by one.

#include <algorithm>
#include <set>

#include "graph/verify.h"
#include "lowered_graph.h"
#include "random_group.h"
#include "shrink.h"

namespace antegrad::testing {
namespace group_fuzz_test {

using lower::Capability;
using lower::EagerCpu;
using lower::OneDnn;

/// ATen's path of a seed.
EagerCpu cpu_of(uint64_t seed) {
  using enum OneDnn;
  return {Capability(seed % 3), std::vector{off, avx2, avx512, avx512_bf16}[seed / 3 % 4],
          1 + static_cast<int64_t>(seed / 12 % 3)};
}

bool runs_here(Capability capability) {
  const auto here = capabilities();
  return has_compiler() && std::ranges::find(here, capability) != here.end();
}

std::string difference(const Graph& graph, uint64_t seed, bool compiles) {
  try {
    LoweredRun run(graph, cpu_of(seed), seed);
    std::string found = run.difference(nullptr);
    if (!found.empty() || !compiles) return found;
    const std::vector<lower::Kernel> kernels = run.kernels();
    if (kernels.empty()) return "";
    const CompiledKernels compiled(kernels, cpu_of(seed).capability);
    return compiled.error().empty() ? run.difference(&compiled) : compiled.error();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string failure(const Graph& graph, uint64_t seed, bool compiles) {
  const auto fails = [&](const Graph& g) { return !difference(g, seed, compiles).empty(); };
  const Graph small = shrink(graph, {.fails = fails});
  const EagerCpu cpu = cpu_of(seed);
  std::string text = fmt::format("seed {}, {}, oneDNN {}, {} threads: {}\n{}", seed,
                                 lower::c_target(cpu.capability).name, static_cast<int>(cpu.onednn),
                                 cpu.threads, difference(small, seed, compiles), to_text(small));
  for (const lower::KernelOfGroup& made : lower::kernel_graph(small, cpu).kernels) {
    text += lower::to_text(made.kernel.kernel);
  }
  return text;
}

TEST(GroupFuzz, KernelsAreWhatTheirNodesAreOneByOne) {
  constexpr int kGraphsOfAFile = 24;  // of a capability
  const int rounds = long_tests() ? 100 : 2;
  int kernels_made = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const Capability capability :
         {Capability::baseline, Capability::avx2, Capability::avx512}) {
      std::vector<std::pair<uint64_t, LoweredRun>> runs;
      std::vector<lower::Kernel> kernels;
      std::set<std::string> names;
      for (int i = 0; i < kGraphsOfAFile; ++i) {
        const uint64_t seed = static_cast<uint64_t>(round * kGraphsOfAFile + i) * 3 +
                              static_cast<uint64_t>(capability);
        const Graph graph = RandomGroup(seed).graph();
        ASSERT_NO_THROW(verify(graph)) << to_text(graph);
        LoweredRun run(graph, cpu_of(seed), seed);
        ASSERT_EQ(run.difference(nullptr), "") << failure(graph, seed, false);
        for (lower::Kernel& kernel : run.kernels()) {
          if (names.insert(kernel.name).second) kernels.push_back(std::move(kernel));
        }
        runs.emplace_back(seed, std::move(run));
      }
      kernels_made += static_cast<int>(kernels.size());
      if (!runs_here(capability)) continue;
      const CompiledKernels compiled(kernels, capability);
      ASSERT_EQ(compiled.error(), "");
      for (auto& [seed, run] : runs) {
        ASSERT_EQ(run.difference(&compiled), "")
            << failure(RandomGroup(seed).graph(), seed, /*compiles=*/true);
      }
    }
  }
  EXPECT_GT(kernels_made, rounds * kGraphsOfAFile) << "graphs of which no kernels are made";
}

}  // namespace group_fuzz_test
}  // namespace antegrad::testing
