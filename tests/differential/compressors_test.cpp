// The ready-made compressors: errors within the bounds of docs/saved-tensor-hooks.md, for tensors
// of all kinds.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "support/bits.h"

namespace antegrad::testing {
namespace compressors_test {

struct Compressor {
  const char* name;
  const Hooks& (*hooks)();
  double of_value;    // largest relative error of a value
  double of_largest;  // or relative to the largest of the tensor or row, if more
  bool by_row;
  friend std::ostream& operator<<(std::ostream& out, const Compressor& compressor) {
    return out << compressor.name;
  }
};

const Compressor kCompressors[] = {
    {"fp8_e4m3", compress::fp8_e4m3, 0x1p-4, 0x1p-18, false},
    {"fp8_e5m2", compress::fp8_e5m2, 0x1p-3, 0x1p-32, false},
    {"int8_rowwise", compress::int8_rowwise, 0, 1.0 / 254, true},
    {"bf16", compress::bf16, 0x1p-8, 0, false},
};
// A scale is at least the smallest normal float, which limits accuracy for the smallest tensors to
// half a step of eight bits.
constexpr double kSmallest = 0x1p-127;

at::Tensor back(const Compressor& compressor, const at::Tensor& x) {
  const auto& pair = *compressor.hooks().pair();
  return pair.unpack(pair.pack(x));
}

struct Contents {
  const char* name;
  at::Tensor (*make)();  // of doubles, to be rounded to the dtype
};

constexpr double kHuge = 3e38;

const Contents kContents[] = {
    {"normal",
     [] {
       return at::randn({40, 33}, at::kDouble);
     }},
    {"of many magnitudes",
     [] {
       return at::randn({40, 33}, at::kDouble) * at::randn({40, 33}, at::kDouble).mul(8).exp();
     }},
    {"zeros",
     [] {
       return at::zeros({40, 33}, at::kDouble);
     }},
    {"rows of zeros",
     [] {
       return at::randn({40, 33}, at::kDouble) * (at::randn({40, 1}, at::kDouble) > 0);
     }},
    {"huge",
     [] {
       return (at::rand({40, 33}, at::kDouble) - 0.5) * 2 * kHuge;
     }},
    {"beyond float",
     [] {
       return at::randn({40, 33}, at::kDouble) * 1e200;
     }},
    {"subnormal",
     [] {
       return at::randn({40, 33}, at::kDouble) * 0x1p-130;
     }},
    {"hardly normal",
     [] {
       return at::randn({40, 33}, at::kDouble) * 0x1p-120;
     }},
    {"with an outlier",
     [] {
       auto x = at::randn({40, 33}, at::kDouble);
       x[7][3] = -1e6;
       return x;
     }},
    {"negative",
     [] {
       return -at::rand({40, 33}, at::kDouble) - 1;
     }},
    {"one value",
     [] {
       return at::full({40, 33}, 0.3, at::kDouble);
     }},
    {"turned",
     [] {
       return at::randn({6, 5, 4, 7}, at::kDouble).permute({0, 3, 1, 2});
     }},
    {"long",
     [] {
       return at::randn({3, 20000}, at::kDouble);
     }},
};

class CompressorErrors : public ::testing::TestWithParam<std::tuple<Compressor, at::ScalarType>> {};

TEST_P(CompressorErrors, KeepWithinWhatIsDocumented) {
  const auto& [compressor, dtype] = GetParam();
  at::manual_seed(1);
  for (const auto& contents : kContents) {
    auto x = contents.make().to(dtype);
    // Exceeds the range of the dtype or of the packed form.
    if (!x.isfinite().all().item<bool>()) continue;
    if (compressor.of_largest == 0 && x.abs().max().item<double>() > kHuge) continue;
    const auto found = back(compressor, x);
    ASSERT_EQ(found.scalar_type(), dtype);
    ASSERT_EQ(found.sizes(), x.sizes());
    x = x.to(at::kDouble);
    // The restored value is finally rounded to the tensor's dtype.
    const double rounding = dtype == at::kBFloat16 ? 0x1p-8 : dtype == at::kHalf ? 0x1p-10 : 1e-6;
    const double step = dtype == at::kHalf ? 0x1p-24 : kSmallest;
    const auto largest = compressor.by_row ? x.abs().amax(-1, true) : x.abs().amax();
    const auto bound =
        at::maximum(x.abs() * compressor.of_value, largest * compressor.of_largest) * (1 + 1e-5) +
        x.abs() * rounding + step;
    const auto beyond = (found.to(at::kDouble) - x).abs() - bound;
    EXPECT_LE(beyond.max().item<double>(), 0) << contents.name;
    EXPECT_TRUE(found.isfinite().all().item<bool>()) << contents.name;
  }
}

TEST_P(CompressorErrors, ComeToGradientsAsTheyAre) {
  const auto& [compressor, dtype] = GetParam();
  at::manual_seed(2);
  const auto x = at::randn({40, 33}, dtype).requires_grad_();
  auto step = compile([](const at::Tensor& t) { return t.exp().sum(); },
                      Options().with_verify_graphs(true));
  const SavedTensorHooks scope(compressor.hooks());
  const auto gradient = torch::autograd::grad({step(x)}, {x})[0];
  EXPECT_TRUE(same_bits({back(compressor, x.detach().exp())}, {gradient}));
  EXPECT_EQ(step.report().eager_calls, 0);
}

INSTANTIATE_TEST_SUITE_P(All, CompressorErrors,
                         ::testing::Combine(::testing::ValuesIn(kCompressors),
                                            ::testing::Values(at::kFloat, at::kDouble, at::kHalf,
                                                              at::kBFloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  c10::toString(std::get<1>(info.param));
                         });

TEST(Compressors, WhatIsNotFiniteStaysSo) {
  for (const auto& compressor : kCompressors) {
    for (const double value : {std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(), std::nan("")}) {
      auto x = at::randn({8, 9});
      x[2][3] = value;
      EXPECT_FALSE(back(compressor, x)[2][3].isfinite().item<bool>())
          << compressor.name << " of " << value;
    }
  }
}

// A scale counts too.
TEST(Compressors, LeaveWhatWouldNotGetSmaller) {
  const auto leaves_alone = [](const Compressor& compressor, const at::Tensor& x) {
    const auto packed = compressor.hooks().pair()->pack(x);
    return packed.tensors.size() == 1 && packed.tensors[0].is_same(x);
  };
  for (const auto& compressor : kCompressors) {
    EXPECT_TRUE(leaves_alone(compressor, at::arange(64))) << compressor.name;
    EXPECT_TRUE(leaves_alone(compressor, at::randn({}))) << compressor.name;
    EXPECT_TRUE(leaves_alone(compressor, at::randn({0, 4}))) << compressor.name;
    EXPECT_TRUE(leaves_alone(compressor, at::randn({64}).to(at::kFloat8_e5m2))) << compressor.name;
    EXPECT_FALSE(leaves_alone(compressor, at::randn({8, 8}))) << compressor.name;
    const bool has_scales = std::string(compressor.name) != "bf16";
    EXPECT_EQ(leaves_alone(compressor, at::randn({1})), has_scales) << compressor.name;
    EXPECT_EQ(leaves_alone(compressor, at::randn({64, 1})), compressor.by_row) << compressor.name;
  }
}

}  // namespace compressors_test
}  // namespace antegrad::testing
