#include "memory/liveness.h"

#include <gtest/gtest.h>

#include "graphs.h"

namespace antegrad::testing {
namespace liveness_test {

TEST(Liveness, ViewsProlongTheLifeOfTheirStorage) {
  const std::vector<StorageLife> lives = liveness(graph_of(R"(inputs
  %0: f32[16] primal
  %1: f32[16] primal
nodes
  %2: f32[16] = aten::neg.default(%0)
  %3: f32[4, 4] &2 = aten::view.default(%2, [4, 4])
  %4: f32[16] = aten::neg.default(%2)
  %5: f32[4, 4] = aten::neg.default(%3)
outputs
  %5 result
)"));
  ASSERT_EQ(lives.size(), 5u);
  EXPECT_EQ(lives[0].storage, StorageId(0));
  EXPECT_EQ(lives[0].first, -1);
  EXPECT_EQ(lives[0].last, 0);
  EXPECT_EQ(lives[1].last, -1);  // never read
  EXPECT_EQ(lives[2].storage, StorageId(2));
  EXPECT_EQ(lives[2].first, 0);
  EXPECT_EQ(lives[2].last, 3);  // through its view
  EXPECT_EQ(lives[3].last, 2);  // dead where it is made
  EXPECT_EQ(lives[4].last, 4);  // held by an output
  EXPECT_EQ(lives[4].bytes, 64);
}

}  // namespace liveness_test
}  // namespace antegrad::testing
