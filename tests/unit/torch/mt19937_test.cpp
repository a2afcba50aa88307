// Draws with vectors of each width; draw_bools_test.cpp compares those of the widest with libtorch.

#include "ops/mt19937.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace antegrad::ops {
namespace {

Mt19937 seeded() {
  Mt19937 state{};
  state.words[0] = 5;
  for (uint32_t i = 1; i < kMt19937Words; ++i) {
    state.words[i] = 1812433253U * (state.words[i - 1] ^ state.words[i - 1] >> 30) + i;
  }
  state.left = 1;
  return state;
}

TEST(Mt19937, EachWidthOfVectorsDrawsTheSame) {
  for (const int64_t count : {311, 312, 1000, 40001}) {
    const auto drawn = [&](int vector_bytes, Mt19937& state) {
      const auto bools = std::make_unique<bool[]>(count);
      draw_bools(state, 0.3, bools.get(), count, vector_bytes);
      return std::vector<bool>(bools.get(), bools.get() + count);
    };
    auto first = seeded();
    const auto expected = drawn(16, first);
    for (int bytes = 32; bytes <= widest_vector(); bytes *= 2) {
      auto state = seeded();
      EXPECT_EQ(drawn(bytes, state), expected) << bytes << " " << count;
      EXPECT_EQ(std::vector(state.words, state.words + kMt19937Words),
                std::vector(first.words, first.words + kMt19937Words));
      EXPECT_EQ(state.left, first.left);
      EXPECT_EQ(state.next, first.next);
    }
  }
}

}  // namespace
}  // namespace antegrad::ops
