// Groups with batch normalisations: the IR, numbers against plain loops, refusals.

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "group_kernels.h"
#include "lower/group_kernel.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace group_channels_test {

using lower::Capability;
using lower::GroupKernel;
using ::testing::HasSubstr;

/// Batch normalisation of x, %0, with relu behind it.
std::string normalised(const std::string& sizes, const std::string& strides = "",
                       const std::string& training = "true") {
  const std::string whole = "f32" + sizes + strides;
  return "inputs\n  %0: " + whole +
         " primal argument 0\n  %1: f32[3] primal argument 1\n  %2: f32[3] primal argument 2\n"
         "  %3: f32[3] primal argument 3\n  %4: f32[3] primal argument 4\nnodes\n  %5: " +
         whole +
         ", %6: f32[3], %7: f32[3], %8: f32[3], %9: f32[3] = "
         "aten::_native_batch_norm_legit_functional.default(%0, %1, %2, %3, %4, " +
         training + ", 0.1, 1e-05)\n  %10: " + whole +
         " = aten::relu.default(%5)\noutputs\n  %10 result\n  %6 result\n  %7 result\n"
         "  %8 result\n  %9 result\n";
}

/// Its gradient, behind that of relu.
std::string gradient(const std::string& sizes) {
  const std::string whole = "f32" + sizes;
  std::string text = "inputs\n";
  for (int i = 0; i < 3; ++i) {
    text += fmt::format("  %{}: {} primal argument {}\n", i, whole, i);
  }
  for (int i = 3; i < 8; ++i) text += fmt::format("  %{0}: f32[3] primal argument {0}\n", i);
  return text + "nodes\n  %8: " + whole +
         " = aten::threshold_backward.default(%0, %1, scalar(0))\n  %9: " + whole +
         ", %10: f32[3], %11: f32[3] = aten::native_batch_norm_backward.default(%8, %2, %3, %4, "
         "%5, %6, %7, true, 1e-05, [true, true, true])\noutputs\n  %9 result\n  %10 result\n"
         "  %11 result\n";
}

/// Runs the interpreter with these values; others have as many elements as `sizes` says.
std::map<int32_t, std::vector<float>> run(const GroupKernel& made,
                                          std::map<int32_t, std::vector<float>> memory,
                                          const std::map<int32_t, size_t>& sizes) {
  for (const auto& [value, size] : sizes) memory[value].resize(size);
  std::vector<char*> buffers;
  for (const lower::GroupBuffer& buffer : made.buffers) {
    buffers.push_back(reinterpret_cast<char*>(memory.at(buffer.value.index()).data()));
  }
  const int64_t channels = lower::parallel_size(made.kernel, made.numbers.data());
  EXPECT_EQ(channels, 3);
  interpret(made.kernel, buffers.data(), made.numbers.data(), 0, channels, 0);
  return memory;
}

std::vector<float> filled(size_t count, int step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int>(i) * step % 53) * 0.25F - 5;
  }
  return values;
}

constexpr int kImages = 4;
constexpr int kSize = 35;
size_t place(int image, int channel, int i) {
  return static_cast<size_t>((image * 3 + channel) * kSize + i);
}

TEST(GroupChannels, BatchNormIsStatisticsOfChannelsAndALoop) {
  const auto made =
      run(kernel_of(normalised("[4, 3, 5, 7]")),
          {{0, filled(420, 17)}, {1, {2, 3, -1}}, {2, {0, 1, 2}}, {3, {1, 1, 1}}, {4, {2, 2, 2}}},
          {{10, 420}, {6, 3}, {7, 3}, {8, 3}, {9, 3}});
  for (int c = 0; c < 3; ++c) {
    double sum = 0;
    double squares = 0;
    const auto x = [&](int n, int i) { return made.at(0)[place(n, c, i)]; };
    for (int n = 0; n < kImages; ++n) {
      for (int i = 0; i < kSize; ++i) sum += x(n, i);
    }
    const double count = kImages * kSize;
    const double mean = sum / count;
    for (int n = 0; n < kImages; ++n) {
      for (int i = 0; i < kSize; ++i) squares += std::pow(x(n, i) - mean, 2);
    }
    const double invstd = 1 / std::sqrt(squares / count + 1e-5);
    EXPECT_NEAR(made.at(6)[c], mean, 1e-5);
    EXPECT_NEAR(made.at(7)[c], invstd, 1e-5);
    EXPECT_NEAR(made.at(8)[c], 0.1 * mean + 0.9, 1e-5);
    EXPECT_NEAR(made.at(9)[c], 0.1 * squares / (count - 1) + 0.9 * 2, 1e-4);
    for (int n = 0; n < kImages; ++n) {
      for (int i = 0; i < kSize; ++i) {
        const double y = (x(n, i) - mean) * invstd * made.at(1)[c] + made.at(2)[c];
        EXPECT_NEAR(made.at(10)[place(n, c, i)], std::max(y, 0.0), 1e-4);
      }
    }
  }
}

TEST(GroupChannels, TheGradientAddsWhatReluLetsThrough) {
  const auto made = run(kernel_of(gradient("[4, 3, 5, 7]")),
                        {{0, filled(420, 17)},
                         {1, filled(420, 29)},
                         {2, filled(420, 11)},
                         {3, {2, 3, -1}},
                         {6, {0.5, -1, 0}},
                         {7, {1, 0.25, 2}}},
                        {{9, 420}, {10, 3}, {11, 3}});
  for (int c = 0; c < 3; ++c) {
    const double mean = made.at(6)[c];
    const double invstd = made.at(7)[c];
    double sum = 0;
    double dot = 0;
    const auto at = [&](int value, int n, int i) { return made.at(value)[place(n, c, i)]; };
    const auto g = [&](int n, int i) { return at(1, n, i) > 0 ? at(0, n, i) : 0.0; };
    for (int n = 0; n < kImages; ++n) {
      for (int i = 0; i < kSize; ++i) {
        sum += g(n, i);
        dot += g(n, i) * (at(2, n, i) - mean);
      }
    }
    EXPECT_NEAR(made.at(10)[c], dot * invstd, 1e-2);
    EXPECT_NEAR(made.at(11)[c], sum, 1e-3);
    const double count = kImages * kSize;
    for (int n = 0; n < kImages; ++n) {
      for (int i = 0; i < kSize; ++i) {
        const double k = dot * invstd * invstd / count;
        const double dx =
            (g(n, i) - sum / count - (at(2, n, i) - mean) * k) * invstd * made.at(3)[c];
        EXPECT_NEAR(at(9, n, i), dx, 1e-3);
      }
    }
  }
}

TEST(GroupChannels, GeneratedCodeHasTheInterpretersBits) {
  for (const Capability capability : {Capability::baseline, Capability::avx2}) {
    for (const char* sizes : {"[4, 3, 5, 7]", "[1, 3, 8, 8]", "[2, 3, 300]", "[3, 3, 2, 1]"}) {
      for (const std::string& text : {normalised(sizes), gradient(sizes)}) {
        const GroupKernel made = kernel_of(text, {capability, lower::OneDnn::avx2});
        expect_compiled_agrees(made.kernel, {made.numbers});
      }
    }
  }
}

// Two sums, what has one element a channel, and all elements.
TEST(GroupChannels, EachSumIsComputedOnce) {
  EXPECT_EQ(kernel_of(normalised("[4, 3, 5, 7]")).kernel.stages.size(), 4U);
  EXPECT_EQ(kernel_of(gradient("[4, 3, 5, 7]")).kernel.stages.size(), 4U);
}

TEST(GroupChannels, OtherSizesHaveTheSameKernel) {
  EXPECT_EQ(kernel_of(normalised("[4, 3, 5, 7]")).key, kernel_of(normalised("[8, 3, 50, 9]")).key);
}

TEST(GroupChannels, RefusesWhatAtenComputesElsewhere) {
  EXPECT_THAT(reason_of(normalised("[4, 3, 5, 7]", "{105, 1, 21, 3}")), HasSubstr("channels-last"));
  EXPECT_THAT(reason_of(normalised("[4, 3, 1, 1]")), HasSubstr("images of one element"));
  EXPECT_THAT(reason_of(normalised("[4, 3]")), HasSubstr("images of one element"));
  EXPECT_THAT(reason_of(normalised("[4, 3, 5, 7]", "", "false")), HasSubstr("no recipe"));
}

}  // namespace group_channels_test
}  // namespace antegrad::testing
