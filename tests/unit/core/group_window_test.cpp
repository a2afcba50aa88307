// Kernels of max pooling: windows inside an image, over its edges, equal numbers and NaN.

#include <cmath>
#include <limits>

#include "group_kernels.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace group_window_test {

using lower::GroupBuffer;
using lower::GroupKernel;

struct Pooled {
  std::vector<float> values;
  std::vector<int64_t> indices;
};

GroupKernel pool(const std::string& from, const std::string& to, const std::string& arguments) {
  return kernel_of("inputs\n  %0: f32" + from + " primal argument 0\nnodes\n  %1: f32" + to +
                   ", %2: i64" + to + " = aten::max_pool2d_with_indices.default(%0, " + arguments +
                   ")\noutputs\n  %1 result\n  %2 result\n");
}

Pooled run(const GroupKernel& made, std::vector<float> image, size_t results) {
  Pooled pooled{std::vector<float>(results), std::vector<int64_t>(results)};
  std::vector<char*> buffers;
  for (const GroupBuffer& buffer : made.buffers) {
    buffers.push_back(buffer.value == ValueId(1)   ? reinterpret_cast<char*>(pooled.values.data())
                      : buffer.value == ValueId(2) ? reinterpret_cast<char*>(pooled.indices.data())
                                                   : reinterpret_cast<char*>(image.data()));
  }
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0,
            lower::parallel_size(made.kernel, made.numbers.data()), 0);
  return pooled;
}

TEST(GroupWindow, TheFirstOfTheLargestElementsCounts) {
  const auto pooled = run(pool("[1, 2, 2, 4]", "[1, 2, 1, 2]", "[2, 2], [], [0, 0], [1, 1], false"),
                          {1, 5, 2, 2,  //
                           5, 0, 2, 2,  //
                           -1, -3, 0, 4, -2, -1, 7, 3},
                          4);
  EXPECT_EQ(pooled.values, (std::vector<float>{5, 2, -1, 7}));
  EXPECT_EQ(pooled.indices, (std::vector<int64_t>{1, 2, 0, 6}));
}

TEST(GroupWindow, BeyondAnEdgeLiesNothing) {
  const auto pooled = run(pool("[1, 3, 3]", "[1, 2, 2]", "[3, 3], [2, 2], [1, 1], [1, 1], false"),
                          {-9, -8, -7,  //
                           -6, -5, -4,  //
                           -3, -2, -10},
                          4);
  EXPECT_EQ(pooled.values, (std::vector<float>{-5, -4, -2, -2}));
  EXPECT_EQ(pooled.indices, (std::vector<int64_t>{4, 5, 7, 7}));
}

TEST(GroupWindow, TheLastNaNCountsAndNothingIsLarger) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::string to = "[1, 1, 2]";
  const auto pooled = run(pool("[1, 2, 4]", to, "[2, 2], [2, 2], [0, 0], [1, 1], false"),
                          {kNaN, 1, -kInfinity, -kInfinity,  //
                           kNaN, kInfinity, -kInfinity, -kInfinity},
                          2);
  EXPECT_TRUE(std::isnan(pooled.values[0]));
  EXPECT_EQ(pooled.values[1], -kInfinity);
  EXPECT_EQ(pooled.indices, (std::vector<int64_t>{4, 2}));
}

TEST(GroupWindow, OthersHaveNoKernel) {
  const auto reason = [](const std::string& from, const std::string& to,
                         const std::string& arguments) {
    return reason_of("inputs\n  %0: " + from + " primal argument 0\nnodes\n  %1: " + to +
                     ", %2: i64[1, 2, 2] = aten::max_pool2d_with_indices.default(%0, " + arguments +
                     ")\noutputs\n  %1 result\n");
  };
  const std::string halves = "[2, 2], [2, 2], [0, 0], [1, 1], false";
  EXPECT_EQ(reason("bf16[1, 4, 4]", "bf16[1, 2, 2]", halves),
            "0: aten::max_pool2d_with_indices.default has no recipe for this type");
  EXPECT_EQ(reason("f32[1, 4, 4]{16, 1, 4}", "f32[1, 2, 2]", halves),
            "0: aten::max_pool2d_with_indices.default has an operand that is not contiguous");
  EXPECT_EQ(reason("f32[1, 4, 4]", "f32[1, 2, 2]", "[3, 3], [3, 3], [1, 1], [2, 2], false"),
            "0: aten::max_pool2d_with_indices.default has spread windows that reach over an edge");
}

}  // namespace group_window_test
}  // namespace antegrad::testing
