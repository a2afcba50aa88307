#include "lower/buffer_reuse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lower/text.h"
#include "lower/verify.h"

namespace antegrad::testing {
namespace buffer_reuse_test {

using lower::BufferReuse;
using Reuses = std::vector<BufferReuse>;

// Buffers x, t (transposed), b (one row), y and z, over 3 rows of 5.
Reuses reuses_of(const std::string& stages, const std::string& functions = "") {
  const auto kernel = lower::parse_kernel(
      "antegrad.kernel 1 k\nnumber n i64\nnumber m i64\n" + functions +
      "buffer x f32 read [n, 1]\nbuffer t f32 read [1, m]\nbuffer b f32 read [0, 1]\n"
      "buffer y f32 write [n, 1]\nbuffer z f32 write [n, 1]\nrows [m, n]\n" +
      stages);
  lower::verify(kernel);
  const std::vector<int64_t> numbers{5, 3};
  return lower::reusable_buffers(kernel, numbers);
}

constexpr int32_t kX = 0, kY = 3, kZ = 4;

TEST(BufferReuse, WhatEachIterationReadsItMayWrite) {
  EXPECT_EQ(reuses_of("each\n  %0 = load f32 x\n  %1 = load f32 t\n"
                      "  %2 = load f32 b\n  %3 = add f32 %0 %1\n"
                      "  %4 = add f32 %3 %2\n  store f32 y %4\n  store f32 z %0\n"),
            (Reuses{{kY, kX}, {kZ, kX}}));
}

TEST(BufferReuse, NotIfItIsReadAfterwards) {
  EXPECT_EQ(reuses_of("each\n  %0 = load f32 t\n  store f32 y %0\n"
                      "each\n  %2 = load f32 x\n  store f32 z %2\n"),
            (Reuses{{kZ, kX}}));
  EXPECT_EQ(reuses_of("each\n  %0 = load f32 t\n  store f32 y %0\n"
                      "  %2 = load f32 x\n  store f32 z %2\n"),
            (Reuses{{kZ, kX}}));
}

TEST(BufferReuse, OverElementsAlsoWithFunctionsOfStrips) {
  const auto kernel = lower::parse_kernel(
      "antegrad.kernel 1 k\nnumber n i64\nfunction f f32 1 strip 0 vsExp\n"
      "buffer x f32 read [1]\nbuffer y f32 write [1]\nbuffer z f32 write [1]\nelements [n]\n"
      "each\n  %0 = load f32 x\n  store f32 y %0\n  %2 = call f32 f %0\n  store f32 z %2\n");
  lower::verify(kernel);
  const std::vector<int64_t> numbers{5};
  EXPECT_EQ(lower::reusable_buffers(kernel, numbers), (Reuses{{1, 0}, {2, 0}}));
}

// Later loops read some elements again.
TEST(BufferReuse, NotOverRowsWithFunctionsOfStrips) {
  EXPECT_EQ(reuses_of("each\n  %0 = load f32 x\n  %1 = call f32 f %0\n  store f32 y %1\n"
                      "  store f32 z %0\n",
                      "function f f32 1 strip 0 vsExp\n"),
            Reuses{});
}

}  // namespace buffer_reuse_test
}  // namespace antegrad::testing
