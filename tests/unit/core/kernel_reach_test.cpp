// Which runs of a kernel go through the same code.

#include "lower/kernel_reach.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "lower/text.h"

namespace antegrad::testing {
namespace kernel_reach_test {

using lower::Kernel;
using lower::parse_kernel;
using Numbers = std::vector<int64_t>;

constexpr std::string_view kScale = R"(antegrad.kernel 1 scale
number rows i64
number n i64
number step i64
number alpha f32
buffer x f32 read [step, 1]
buffer y f32 write [n, 1]
elements [rows, n]
each
  %0 = load f32 x
  %1 = number f32 alpha
  %2 = mul f32 %0 %1
  %3 = add f32 %0 %1
  %4 = path f32 %2 %3 block 32 over 2
  store f32 y %4
)";

// Of a kernel over rows whose sums it writes.
constexpr std::string_view kSumOfRow = R"(fold lanes 16 1 sequence add
  %0 = accumulator f32 0
  %1 = load f32 x
  %2 = add f32 %0 %1
  yield %2
  %3 = result f32
row
  store f32 y %3
)";

constexpr std::string_view kSums = R"(antegrad.kernel 1 sums
number rows i64
number n i64
buffer x f32 read [n, 1]
buffer y f32 write [1, 0]
rows [rows, n]
)";

constexpr std::string_view kColumnSums = R"(antegrad.kernel 1 sums
number columns i64
number n i64
buffer x f32 read [1, columns]
buffer y f32 write [1, 0]
columns [columns, n]
fold columns 8 1
  %0 = load f32 x
  yield %0
  %1 = result f32
row
  store f32 y %1
)";

/// Sums over rows that lie as `strides` says.
std::string sums_of(std::string_view strides, int64_t outer, int64_t rows) {
  const Kernel kernel = parse_kernel(fmt::format(R"(antegrad.kernel 1 sums
number outer i64
number rows i64
number n i64
number far i64
buffer x f32 read [far, {}]
buffer y f32 write [rows, 1, 0]
rows [outer, rows, n]
{})",
                                                 strides, kSumOfRow));
  return reach_of(kernel, Numbers{outer, rows, 64, rows * 64}, int64_t{1} << 40);
}

class KernelReach : public ::testing::Test {
 protected:
  std::string scale(int64_t rows, int64_t n, int64_t part = int64_t{1} << 40, double alpha = 2,
                    int64_t step = 7) const {
    return reach_of(scale_, Numbers{rows, n, step, std::bit_cast<int64_t>(alpha)}, part);
  }
  std::string sums(int64_t rows, int64_t n, int64_t part = int64_t{1} << 40) const {
    return reach_of(sums_, Numbers{rows, n}, part);
  }

  std::string column_sums(int64_t columns, int64_t n) const {
    return reach_of(column_sums_, Numbers{columns, n}, int64_t{1} << 40);
  }

  const Kernel scale_ = parse_kernel(kScale);
  const Kernel sums_ = parse_kernel(fmt::format("{}{}", kSums, kSumOfRow));
  const Kernel column_sums_ = parse_kernel(kColumnSums);
};

TEST_F(KernelReach, MoreWholeRowsAreTheSame) {
  EXPECT_EQ(scale(1000, 512), scale(900, 512));
  EXPECT_EQ(sums(2048, 768), sums(2048 - 16, 768));
}

TEST_F(KernelReach, StridesDoNotCount) {
  EXPECT_EQ(scale(8, 100, 800, 2, 100), scale(8, 100, 800, 2, 333));
}

TEST_F(KernelReach, ScalarsCount) { EXPECT_NE(scale(8, 100, 800, 2), scale(8, 100, 800, 3)); }

TEST_F(KernelReach, EachRestCounts) {
  for (int64_t n = 513; n < 1024; ++n) EXPECT_NE(scale(1, 512), scale(1, n)) << n;
  EXPECT_NE(sums(100, 768), sums(100, 769));
}

TEST_F(KernelReach, SizesBelowAtAndAboveAPowerOfTwoDiffer) {
  EXPECT_NE(scale(1, 1024), scale(1, 1536));
  EXPECT_NE(scale(1, 1024), scale(1, 512));
  EXPECT_NE(sums(1, 4096), sums(1, 4096 + 512));
  EXPECT_NE(sums(1, 4096), sums(1, 4096 - 512));
}

TEST_F(KernelReach, WhatIsWrittenPastTheCachesDiffers) {
  EXPECT_EQ(scale(4096, 1024), scale(8191, 1024));
  EXPECT_NE(scale(8191, 1024), scale(8192, 1024));
  EXPECT_EQ(sums(8191, 1024), sums(8191 + 16, 1024));  // one element a row is written
}

TEST_F(KernelReach, OfManyElementsWithoutSumsOnlyTheRestCounts) {
  EXPECT_EQ(scale(1, int64_t{1} << 20), scale(1, int64_t{3} << 21));
  EXPECT_NE(sums(1, int64_t{1} << 20), sums(1, int64_t{3} << 20));
}

TEST_F(KernelReach, ASumOverColumnsHasALevelMoreAtPowersOf16) {
  EXPECT_EQ(column_sums(512, 1024), column_sums(512, 2048));
  EXPECT_NE(column_sums(512, 2048), column_sums(512, 4096));
  EXPECT_NE(column_sums(512, 2048), column_sums(512, 2049));
}

TEST_F(KernelReach, ThreadsThatShareRowsDiffer) {
  EXPECT_NE(scale(1024, 512), scale(1024, 512, 512 * 512));                 // two threads
  EXPECT_NE(scale(1024, 512, 512 * 512), scale(1024, 512, 512 * 512 + 1));  // within a row
  EXPECT_NE(sums(1024, 512), sums(1024, 512, 512));
}

TEST_F(KernelReach, BlocksOfTransposedRowsEndWithTheirDimension) {
  constexpr std::string_view kAcross = "1, rows", kAlong = "n, 1";
  EXPECT_NE(sums_of(kAcross, 48, 16), sums_of(kAcross, 16, 48));
  EXPECT_NE(sums_of(kAcross, 48, 17), sums_of(kAcross, 17, 48));
  EXPECT_EQ(sums_of(kAcross, 12, 64), sums_of(kAcross, 16, 48));
  EXPECT_EQ(sums_of(kAlong, 48, 16), sums_of(kAlong, 16, 48));
  EXPECT_EQ(sums_of(kAlong, 48, 17), sums_of(kAlong, 17, 48));
}

TEST_F(KernelReach, NothingIsAReachToo) {
  EXPECT_NE(scale(0, 512), scale(512, 512));
  EXPECT_NE(scale(512, 0), scale(512, 512));
}

}  // namespace kernel_reach_test
}  // namespace antegrad::testing
