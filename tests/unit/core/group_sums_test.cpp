// Groups with sums over rows: gradients of the weight and bias of a layer normalisation.

#include <map>
#include <string>
#include <vector>

#include "group_kernels.h"
#include "lower/group_kernel.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace group_sums_test {

using lower::EagerCpu;
using lower::GroupKernel;

constexpr EagerCpu kTwoThreads{
    .capability = lower::Capability::avx2, .onednn = lower::OneDnn::avx2, .threads = 2};

/// Gradients of a layer normalisation, and the gradient of a residual connection around it.
/// `results` of %9 (the sum), %6 and %7 (those of weight and bias).
std::string gradients(const std::string& type, int rows, int n, const std::string& results) {
  return fmt::format(
      "inputs\n  %0: {0}[{1}, {2}] primal argument 0\n  %1: {0}[{1}, {2}] primal argument 1\n"
      "  %2: {0}[{1}, 1] primal argument 2\n  %3: {0}[{1}, 1] primal argument 3\n"
      "  %4: {0}[{2}] primal argument 4\n  %8: {0}[{1}, {2}] primal argument 5\nnodes\n"
      "  %5: {0}[{1}, {2}], %6: {0}[{2}], %7: {0}[{2}] = "
      "aten::native_layer_norm_backward.default(%0, %1, [{2}], %2, %3, %4, none, "
      "[true, true, true])\n"
      "  %9: {0}[{1}, {2}] = aten::add.Tensor(%5, %8, scalar(1))\noutputs\n{3}",
      type, rows, n, results);
}
const std::string kAll = "  %9 result\n  %6 result\n  %7 result\n";

/// Of two parts.
template <class Sum, class Element>
void add_sums(const std::vector<Sum>& sums, int64_t count, DType type,
              std::vector<Element>& result) {
  lower::add_sums(reinterpret_cast<const char*>(sums.data()), 2, count, type,
                  reinterpret_cast<char*>(result.data()));
}

TEST(GroupSums, AtCloseRowsAreInTheSamePartsForAnyThreads) {
  const GroupKernel made =
      kernel_of(gradients("f32", 500, 7, kAll), kTwoThreads, lower::Level::close);
  EXPECT_EQ(made.split, lower::ThreadSplit::parts);
  for (const int64_t rows : {1, 16, 17, 500, 100'000}) {
    const auto part = lower::elements_of_a_thread(made.split, rows, 1);
    EXPECT_EQ(part, lower::elements_of_a_thread(made.split, rows, 4));
    EXPECT_GE(part, 16);
    EXPECT_LE((rows + part - 1) / part, 64);
  }
}

TEST(GroupSums, EachThreadAddsItsRowsInMemoryOfItsOwn) {
  const GroupKernel made = kernel_of(gradients("f32", 5, 7, kAll), kTwoThreads);
  EXPECT_EQ(made.split, lower::ThreadSplit::rows);
  std::string sums;
  for (size_t i = 0; i < made.buffers.size(); ++i) {
    if (!made.buffers[i].sums) continue;
    const lower::Extent row = made.kernel.buffers[i].thread;
    sums += fmt::format("%{} {} ", made.buffers[i].value.index(),
                        lower::value_of(row, made.numbers.data()));
  }
  EXPECT_EQ(sums, "%6 7 %7 7 ");
}

TEST(GroupSums, AreEagersGradients) {
  constexpr int kRows = 5;
  constexpr int kSize = 7;
  const GroupKernel made = kernel_of(gradients("f32", kRows, kSize, kAll), kTwoThreads);
  std::map<int32_t, std::vector<float>> memory;
  for (const int32_t value : {0, 1, 8, 9}) memory[value].resize(kRows * kSize);
  for (const int32_t value : {2, 3}) memory[value].resize(kRows);
  memory[4].resize(kSize);
  for (const int32_t value : {6, 7}) memory[value].resize(2 * kSize);  // zeros of two parts
  for (const int32_t value : {0, 1, 2, 3, 4, 8}) {
    for (size_t i = 0; i < memory[value].size(); ++i) {
      memory[value][i] = static_cast<float>((i * 37 + value * 11) % 64) / 8 - 3;
    }
  }
  std::vector<char*> buffers;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    buffers.push_back(reinterpret_cast<char*>(memory.at(buffer.value.index()).data()));
  }
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, 3, 0);
  interpret(made.kernel, buffers.data(), made.numbers.data(), 3, 5, 1);
  std::vector<float> weight(kSize);
  std::vector<float> bias(kSize);
  add_sums(memory[6], kSize, DType::f32, weight);
  add_sums(memory[7], kSize, DType::f32, bias);
  for (size_t j = 0; j < kSize; ++j) {
    float of_weight = 0;  // exact: small multiples of powers of two
    float of_bias = 0;
    for (size_t i = 0; i < kRows; ++i) {
      const size_t at = i * kSize + j;
      of_weight += memory[0][at] * ((memory[1][at] - memory[2][i]) * memory[3][i]);
      of_bias += memory[0][at];
    }
    EXPECT_EQ(weight[j], of_weight);
    EXPECT_EQ(bias[j], of_bias);
  }
}

TEST(GroupSums, GeneratedCodeHasTheInterpretersBits) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    for (const int n : {2, 8, 31, 300}) {
      const GroupKernel made = kernel_of(gradients(type, 6, n, kAll));
      expect_compiled_agrees(made.kernel, {made.numbers});
    }
  }
}

TEST(GroupSums, AreRoundedOnceToTheirType) {
  const std::vector<float> sums = {1, 0x1p-9F, 0x1p-9F, 0x1p-9F};  // two parts of two elements
  std::vector<uint16_t> result(2);
  add_sums(sums, 2, DType::bf16, result);
  EXPECT_EQ(result, (std::vector<uint16_t>{0x3f80, 0x3b80}));
}

// At Level::close: there is no recipe with eager's bits.
TEST(GroupSums, OfFloat64AreAddedInFloat64) {
  const GroupKernel made =
      kernel_of(gradients("f64", 5, 7, kAll), kTwoThreads, lower::Level::close);
  for (size_t i = 0; i < made.buffers.size(); ++i) {
    if (!made.buffers[i].sums) continue;
    EXPECT_EQ(made.kernel.buffers[i].type, lower::type_of_sums(DType::f64));
  }
  const std::vector<double> sums = {1, 2, 0x1p-50, 0x1p-40};
  std::vector<double> result(2);
  add_sums(sums, 2, DType::f64, result);
  EXPECT_EQ(result, (std::vector<double>{1 + 0x1p-50, 2 + 0x1p-40}));
}

TEST(GroupSums, WhatNobodyReadsIsNotAdded) {
  const GroupKernel made = kernel_of(gradients("f32", 5, 7, "  %9 result\n  %7 result\n"));
  for (const lower::GroupBuffer& buffer : made.buffers) EXPECT_NE(buffer.value.index(), 6);
}

TEST(GroupSums, NobodyOfTheGroupReadsThem) {
  std::string text = gradients("f32", 5, 7, "  %10 result\n");
  text.insert(text.find("outputs"), "  %10: f32[5, 7] = aten::mul.Tensor(%9, %6)\n");
  EXPECT_EQ(reason_of(text), "2: aten::mul.Tensor reads a sum over the rows of its group");
}

// A sigmoid of few elements runs on one thread, and has other bits at the end.
TEST(GroupSums, AreNotAddedOnOneThreadWhereEagerHasMore) {
  std::string text = gradients("f32", 5, 7, "  %6 result\n  %10 result\n");
  text.insert(text.find("outputs"), "  %10: f32[5, 7] = aten::sigmoid.default(%9)\n");
  EXPECT_EQ(reason_of(text), "");
  EXPECT_EQ(reason_of(text, kTwoThreads),
            "2: aten::sigmoid.default ends rows as on one thread, and its group adds rows on "
            "several");
}

}  // namespace group_sums_test
}  // namespace antegrad::testing
