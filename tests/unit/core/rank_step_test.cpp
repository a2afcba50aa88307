#include "explain/rank_step.h"

#include <gtest/gtest.h>

#include "graphs.h"

namespace antegrad::testing {
namespace rank_step_test {

// Two gathers, the second of which runs while a product with the first is computed; an exchange.
const std::string kProgram = R"(inputs
  %0: f32[64, 64] primal argument 0
  %1: f32[2048] primal argument 1 grad
  %2: f32[2048] primal argument 2 grad
nodes
  %3: f32[4096] = antegrad::all_gather.default(%1, 2, "g")
  %4: f32[4096] &3 = antegrad::wait.default(%3, %1)
  %5: f32[4096] = antegrad::all_gather.default(%2, 2, "g")
  %6: f32[64, 64] &3 = aten::view.default(%4, [64, 64])
  %7: f32[64, 64] = aten::mm.default(%0, %6)
  %8: f32[4096] &5 = antegrad::wait.default(%5, %2)
  %9: f32[64, 64] &5 = aten::view.default(%8, [64, 64])
  %10: f32[64, 64] = aten::mm.default(%7, %9)
  %11: f32[4096] &10 = aten::view.default(%10, [4096])
  %12: f32[2, 2048] = antegrad::all_to_all.default(%11, 2, "g")
  %13: f32[2, 2048] &12 = antegrad::wait.default(%12, %11)
outputs
  %13 result
)";

// A product takes this long.
constexpr double kSecond = 1;
const Machine kMachine{.flops_per_second = 2 * 64 * 64 * 64 / kSecond,
                       .bytes_per_second = 1e12,
                       .host_bytes_per_second = 1e12,
                       .functions_per_second = 1e12,
                       .draws_per_second = 1e12};

RankStep step() { return rank_step({graph_of(kProgram)}, kMachine, 1); }

double played(double core_share, double seconds) {
  return step_seconds(step(), core_share, [&](const RankCollective&) { return seconds; });
}

TEST(RankStep, HasTheCollectivesOfItsPrograms) {
  const auto found = step();
  ASSERT_EQ(found.collectives.size(), 3U);
  for (const auto& collective : found.collectives) EXPECT_EQ(collective.bytes, 4 * 4096);
  EXPECT_FALSE(found.collectives[1].reduces);
  EXPECT_TRUE(found.collectives[2].reduces);
  EXPECT_DOUBLE_EQ(found.compute_seconds(), 2);
  EXPECT_DOUBLE_EQ(rank_step({graph_of(kProgram)}, kMachine, 3).compute_seconds(), 6);
}

// The first gather and the exchange have nothing beside them; the second gather has a product.
TEST(RankStep, HidesWhatRunsBesideIt) {
  EXPECT_DOUBLE_EQ(played(0, 0), 2);
  EXPECT_DOUBLE_EQ(played(0, 0.5), 0.5 + 1 + 1 + 0.5);
  EXPECT_DOUBLE_EQ(played(0, 3), 3 + 3 + 1 + 3);
  EXPECT_DOUBLE_EQ(played(1, 0.5), 2 + 3 * 0.5);
  EXPECT_DOUBLE_EQ(played(0.5, 0.5), 0.5 + 0.25 + 1 + 1 + 0.5);
}

}  // namespace rank_step_test
}  // namespace antegrad::testing
