// Groups that read or write rows at indices: embeddings, and the gradients of a loss of classes.

#include <gtest/gtest.h>

#include <map>

#include "group_kernels.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace group_indices_test {

using lower::GroupKernel;

/// In the order of the kernel; `memory` by value of the graph.
std::vector<char*> buffers_of(const GroupKernel& made, const std::map<int32_t, char*>& memory) {
  std::vector<char*> buffers;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    buffers.push_back(memory.at(buffer.value.index()));
  }
  return buffers;
}

TEST(GroupIndices, RowsAreReadAtThem) {
  const GroupKernel made = kernel_of(
      "inputs\n  %0: f32[30, 12] primal argument 0\n  %1: i64[5] primal argument 1\nnodes\n"
      "  %2: f32[5, 12] = aten::embedding.default(%0, %1, -1, false, false)\n"
      "  %9: f32[5] = aten::sum.dim_IntList(%2, [1], false, none)\noutputs\n  %9 result\n");
  ASSERT_EQ(made.bounds.size(), 1U);
  EXPECT_EQ(made.bounds[0].value.index(), 1);
  EXPECT_EQ(made.bounds[0].end, 30);
  std::vector<float> table(30 * 12);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i * 37 % 101) / 16;
  std::vector<int64_t> indices = {3, 29, 0, 3, 17};
  std::vector<float> result(5);
  std::map<int32_t, char*> memory = {{0, reinterpret_cast<char*>(table.data())},
                                     {1, reinterpret_cast<char*>(indices.data())},
                                     {9, reinterpret_cast<char*>(result.data())}};
  std::vector<char*> buffers = buffers_of(made, memory);
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 5, 0);
  for (size_t i = 0; i < 5; ++i) {
    float sum = 0;  // exact: small multiples of 1/16
    for (size_t j = 0; j < 12; ++j) sum += table[indices[i] * 12 + j];
    EXPECT_EQ(result[i], sum);
  }
}

/// Gradients of cross entropy: those of the loss of a type, and of log_softmax.
std::string cross_entropy(const std::string& type, const std::string& ignored) {
  return fmt::format(
      "inputs\n  %0: {0}[] primal argument 0\n  %1: {0}[4, 6] primal argument 1\n"
      "  %2: i64[4] primal argument 2\n  %3: {0}[] primal argument 3\nnodes\n"
      "  %4: {0}[4, 6] = aten::nll_loss_backward.default(%0, %1, %2, none, 1, {1}, %3)\n"
      "  %5: {0}[4, 6] = aten::_log_softmax_backward_data.default(%4, %1, 1, {0})\n"
      "outputs\n  %4 result\n  %5 result\n",
      type, ignored);
}

TEST(GroupIndices, TheGradientOfALossIsAtTheClassOfEachRow) {
  const GroupKernel made = kernel_of(cross_entropy("f32", "3"));
  ASSERT_EQ(made.bounds.size(), 1U);
  EXPECT_EQ(made.bounds[0].value.index(), 2);
  EXPECT_EQ(made.bounds[0].begin, 0);
  EXPECT_EQ(made.bounds[0].end, 6);
  EXPECT_EQ(made.bounds[0].other, 3);
  float gradient = 2;
  float rows = 4;
  std::vector<int64_t> classes = {5, 0, 3, 4};  // one is ignored
  std::vector<float> logs(24, 0);
  std::vector<float> of_loss(24);
  std::vector<float> of_softmax(24);
  std::map<int32_t, char*> memory = {{0, reinterpret_cast<char*>(&gradient)},
                                     {1, reinterpret_cast<char*>(logs.data())},
                                     {2, reinterpret_cast<char*>(classes.data())},
                                     {3, reinterpret_cast<char*>(&rows)},
                                     {4, reinterpret_cast<char*>(of_loss.data())},
                                     {5, reinterpret_cast<char*>(of_softmax.data())}};
  std::vector<char*> buffers = buffers_of(made, memory);
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 4, 0);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 6; ++j) {
      const float here = classes[i] == j && j != 3 ? -0.5F : 0;
      EXPECT_EQ(of_loss[i * 6 + j], here);
      EXPECT_EQ(of_softmax[i * 6 + j], classes[i] == 3 ? 0 : here + 0.5F);
    }
  }
}

// One element and zeros: their sum is known.
TEST(GroupIndices, TheGradientOfALossIsNotAdded) {
  EXPECT_EQ(text_of(cross_entropy("f32", "-100")).find("fold"), std::string::npos);
  EXPECT_EQ(text_of(cross_entropy("bf16", "-100")).find("fold"), std::string::npos);
}

TEST(GroupIndices, TheGradientOfALossHasTheInterpretersBits) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    const std::string text = cross_entropy(type, "-100");
    const size_t softmax = text.find("  %5");
    const GroupKernel made = kernel_of(text.substr(0, softmax) + "outputs\n  %4 result\n");
    expect_compiled_agrees(made.kernel, {made.numbers});
  }
}

}  // namespace group_indices_test
}  // namespace antegrad::testing
