// Kernels of groups that end in cat or stack: each part is stored where it lies in the result.

#include <numeric>

#include "group_kernels.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace group_parts_test {

using lower::GroupBuffer;
using lower::GroupKernel;

constexpr const char* kInputs =
    "inputs\n  %0: f32[2, 3] primal argument 0\n  %1: f32[2, 3] primal argument 1\nnodes\n";

std::string with(const std::string& nodes) { return kInputs + nodes + "outputs\n  %9 result\n"; }

/// The result %9 of 12 elements, where %0 has 0, 1, ... and %1 has 100, 101, ...
std::vector<float> result_of(const GroupKernel& made) {
  std::vector<float> x(6), y(6), result(12);
  std::iota(x.begin(), x.end(), 0.0F);
  std::iota(y.begin(), y.end(), 100.0F);
  std::vector<char*> buffers;
  for (const GroupBuffer& buffer : made.buffers) {
    std::vector<float>& memory = buffer.written ? result : buffer.value == ValueId(0) ? x : y;
    buffers.push_back(reinterpret_cast<char*>(memory.data()));
  }
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0,
            lower::parallel_size(made.kernel, made.numbers.data()), 0);
  return result;
}

using Numbers = std::vector<float>;

TEST(GroupParts, EachIsStoredWhereItLiesInTheResult) {
  EXPECT_EQ(text_of(with("  %9: f32[2, 6] = aten::cat.default({%0, %1}, -1)\n")),
            R"(number n0 i64
number n1 i64
number x0_0 i64
number y0_0 i64
number x1_0 i64
number y1_0 i64
number y1_at i64
buffer x0 f32 read [x0_0, 1]
buffer y0 f32 write [y0_0, 1]
buffer x1 f32 read [x1_0, 1]
buffer y1 f32 write [y1_0, 1] offset y1_at
elements [n0, n1]
each
  %0 = load f32 x0
  store f32 y0 %0
  %2 = load f32 x1
  store f32 y1 %2
)");
}

TEST(GroupParts, MayLieAlongAnyDimension) {
  const auto cat = [](int dimension, const std::string& sizes) {
    return result_of(kernel_of(
        with(fmt::format("  %9: f32{} = aten::cat.default({{%0, %1}}, {})\n", sizes, dimension))));
  };
  const auto stack = [](int dimension, const std::string& sizes) {
    return result_of(kernel_of(with(
        fmt::format("  %9: f32{} = aten::stack.default({{%0, %1}}, {})\n", sizes, dimension))));
  };
  const Numbers behind{0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105};
  const Numbers rows{0, 1, 2, 100, 101, 102, 3, 4, 5, 103, 104, 105};
  const Numbers elements{0, 100, 1, 101, 2, 102, 3, 103, 4, 104, 5, 105};
  EXPECT_EQ(cat(0, "[4, 3]"), behind);
  EXPECT_EQ(cat(1, "[2, 6]"), rows);
  EXPECT_EQ(stack(0, "[2, 2, 3]"), behind);
  EXPECT_EQ(stack(1, "[2, 2, 3]"), rows);
  EXPECT_EQ(stack(-1, "[2, 3, 2]"), elements);
}

TEST(GroupParts, MayBeComputedInTheGroupAndMayBeEqual) {
  const GroupKernel made =
      kernel_of(with("  %2: f32[2, 3] = aten::add.Tensor(%0, %1, scalar(1))\n"
                     "  %3: f32[6] &2 = aten::view.default(%2, [6])\n"
                     "  %9: f32[6, 2] = aten::stack.default({%3, %3}, 1)\n"));
  EXPECT_EQ(result_of(made), (Numbers{100, 100, 102, 102, 104, 104, 106, 106, 108, 108, 110, 110}));
}

TEST(GroupParts, OfATransposedTensorAreReadInTheOrderOfTheResult) {
  const GroupKernel made =
      kernel_of(with("  %2: f32[3, 2]{1, 3} &0 = aten::t.default(%0)\n"
                     "  %3: f32[3, 2]{1, 3} &1 = aten::t.default(%1)\n"
                     "  %9: f32[6, 2] = aten::cat.default({%2, %3}, 0)\n"));
  EXPECT_EQ(result_of(made), (Numbers{0, 3, 1, 4, 2, 5, 100, 103, 101, 104, 102, 105}));
}

TEST(GroupParts, HaveOneShapeAndNobodyInTheGroupReadsThem) {
  EXPECT_EQ(reason_of("inputs\n  %0: f32[2, 3] primal argument 0\n  %1: f32[2, 4] primal argument "
                      "1\nnodes\n  %9: f32[2, 7] = aten::cat.default({%0, %1}, 1)\noutputs\n"
                      "  %9 result\n"),
            "0: aten::cat.default has parts of different shapes");
  EXPECT_EQ(reason_of(with("  %2: f32[2, 6] = aten::cat.default({%0, %1}, 1)\n"
                           "  %9: f32[2, 6] = aten::relu.default(%2)\n")),
            "1: aten::relu.default reads what its group has in parts");
}

}  // namespace group_parts_test
}  // namespace antegrad::testing
