// One callable at many sizes: small ones first, then large ones first. Nothing runs eagerly.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "support/options.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace many_shapes_test {

using List = std::vector<at::Tensor>;
using Sizes = std::vector<int64_t>;

// Inputs that have gradients, one for each shape.
List leaves(const std::vector<Sizes>& shapes) {
  List list;
  for (const auto& shape : shapes) list.push_back(at::randn(shape).set_requires_grad(true));
  return list;
}

// Calls with these inputs, in both orders. Each has a program. No result is a view of what others
// are computed from: gradients would add up in another order (docs/accuracy.md).
void expect_parity(const Function& fn, std::vector<List> calls) {
  at::manual_seed(1);
  expect_parity_of_calls(fn, calls, calls.size());
  std::reverse(calls.begin(), calls.end());
  expect_parity_of_calls(fn, calls, calls.size());
}

TEST(ManyShapes, NoSamplesAndOneSample) {
  std::vector<List> calls;
  for (const int64_t batch : {0, 1, 2, 5}) calls.push_back(leaves({{batch, 6}, {4, 6}, {4}}));
  expect_parity(
      [](const List& in) {
        const auto h = at::layer_norm(at::linear(in[0], in[1], in[2]), {4});
        return List{h.relu().softmax(1), at::cat({h, h * 2}).sum(0), h.mean(),
                    h.transpose(0, 1) * 2};
      },
      calls);
}

TEST(ManyShapes, NoPositionsAndOnePosition) {
  std::vector<List> calls;
  for (const int64_t length : {0, 1, 3}) calls.push_back(leaves({{2, length, 4}, {4, 4}}));
  expect_parity(
      [](const List& in) {
        const auto scores = in[0].matmul(in[1]).bmm(in[0].transpose(1, 2)).softmax(-1);
        return List{scores.matmul(in[0]).flatten(1), in[0].sum(1)};
      },
      calls);
}

TEST(ManyShapes, ABatchThatEqualsAnotherSize) {
  std::vector<List> calls;
  for (const int64_t batch : {1, 3, 4, 5}) calls.push_back(leaves({{batch, 4}, {4, 4}, {4}}));
  expect_parity(
      [](const List& in) {
        const auto h = in[0].mm(in[1]).tanh() + in[2];
        return List{h.t().mm(in[0]), h.transpose(0, 1).reshape({-1}) * 2, h.sum(0), h.sum(1)};
      },
      calls);
}

// What is equal in one call is broadcast in another.
TEST(ManyShapes, TiedSizes) {
  std::vector<List> calls;
  const std::vector<Sizes> pairs = {{1, 1}, {1, 3}, {3, 1}, {3, 3}, {5, 5}};
  for (const auto& pair : pairs) calls.push_back(leaves({{pair[0], 2}, {pair[1], 2}}));
  expect_parity(
      [](const List& in) {
        return List{in[0] * in[1] + in[0].sum(), at::cat({in[0], in[1]}), in[0].mm(in[1].t())};
      },
      calls);
}

TEST(ManyShapes, ASizeAsANumber) {
  std::vector<List> calls;
  const std::vector<Sizes> all = {{1, 2}, {2, 2}, {2, 3}, {4, 3}, {5, 7}};
  for (const auto& shape : all) calls.push_back(leaves({shape}));
  expect_parity(
      [](const List& in) {
        const auto& x = in[0];
        const auto rows = x.size(0), columns = x.size(1);
        auto y = x / static_cast<double>(rows) + at::arange(columns) * x.numel();
        y = rows % 2 == 0 ? y.sin() : y.pow(rows);
        return List{y, at::full({rows}, columns), at::eye(columns).mm(x.t()),
                    x.sum() * std::sqrt(static_cast<double>(columns))};
      },
      calls);
}

// Strides of arguments, of results, and of what is saved in between.
TEST(ManyShapes, StridesThatChangeWithSizes) {
  std::vector<List> calls;
  const auto turned = [](const Sizes& shape) {
    return List{at::randn(shape).transpose(0, 1).set_requires_grad(true)};
  };
  for (const auto& shape : std::vector<Sizes>{{2, 3}, {4, 4}, {5, 2}}) {
    calls.push_back(leaves({shape}));
    calls.push_back(turned({shape[1], shape[0]}));
  }
  expect_parity(
      [](const List& in) {
        const auto y = in[0].exp();
        return List{y.t().contiguous().view({-1}) * 2, y.reshape({-1}) * 2,
                    at::empty_like(y).fill_(1), y.as_strided({2}, {y.stride(0)}) + y[0][0]};
      },
      calls);
}

TEST(ManyShapes, ImagesInBothMemoryFormats) {
  std::vector<List> calls;
  for (const auto& shape : std::vector<Sizes>{{1, 3, 5, 7}, {2, 3, 4, 4}, {3, 3, 3, 9}}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      calls.push_back({at::randn(shape).contiguous(format).set_requires_grad(true),
                       at::randn({4, 3, 3, 3}).set_requires_grad(true)});
    }
  }
  expect_parity(
      [](const List& in) {
        const auto h = at::conv2d(in[0], in[1], {}, 2, 1).relu();
        return List{h, at::max_pool2d(h, 2, 1), h.mean({2, 3}), h.flatten(1) * 2};
      },
      calls);
}

TEST(ManyShapes, OddLengths) {
  std::vector<List> calls;
  for (int64_t length = 2; length < 10; ++length) calls.push_back(leaves({{2, 3, length}}));
  expect_parity(
      [](const List& in) {
        const auto& x = in[0];
        const auto half = x.size(2) / 2, rest = x.size(2) - half;
        const auto parts = x.chunk(2, 2);
        return List{x.slice(2, 0, c10::nullopt, 2) * 2,
                    at::avg_pool1d(x, 2),
                    at::constant_pad_nd(x, {1, rest}).cumsum(2),
                    x.narrow(2, half, rest).sum(2),
                    parts[0] + parts.back().sum(),
                    x.unfold(2, half, 2).mean(-1),
                    at::upsample_nearest1d(x, {x.size(2) + half}),
                    at::adaptive_avg_pool1d(x, 2)};
      },
      calls);
}

TEST(ManyShapes, WhatIsDrawnAndWritten) {
  std::vector<List> calls;
  for (const int64_t n : {1, 2, 3, 8}) calls.push_back({at::randn({n, 4}), at::randn({n, 4})});
  for (auto& call : calls) call[0].set_requires_grad(true);
  expect_parity(
      [](const List& in) {
        auto rows = in[1].narrow(0, 0, (in[1].size(0) + 1) / 2);
        rows.mul_(2);
        const auto y = at::dropout(in[0] * in[1].clone(), 0.5, true);
        in[1].add_(at::rand_like(in[1]));
        return List{y + at::randn({4}), in[1].sum()};
      },
      calls);
}

TEST(ManyShapes, TokensAndClasses) {
  std::vector<List> calls;
  for (const auto& shape : std::vector<Sizes>{{1, 1}, {1, 5}, {2, 3}, {4, 4}}) {
    auto call = leaves({{10, 4}, {6, 4}});
    call.push_back(at::randint(10, shape));
    call.push_back(at::randint(6, shape));
    calls.push_back(call);
  }
  expect_parity(
      [](const List& in) {
        const auto h = at::embedding(in[0], in[2]);
        const auto causal = at::ones({h.size(1), h.size(1)}, at::kBool).tril();
        const auto heads = h.unsqueeze(1);
        const auto mixed = at::scaled_dot_product_attention(heads, heads, heads, causal);
        const auto logits = mixed.squeeze(1).matmul(in[1].t());
        return List{at::cross_entropy_loss(logits.view({-1, 6}), in[3].view(-1))};
      },
      calls);
}

// Nothing of the memory below is ever touched but the ends.
TEST(ManyShapes, PositionsBeyond31Bits) {
  const auto fn = [](const at::Tensor& x, const at::Tensor& w) {
    const auto n = x.size(0);
    const auto end = x.narrow(0, n - 4, 4).to(at::kFloat);
    const auto numbers = at::arange(n - 4, n, at::kLong);
    return std::vector<at::Tensor>{end * w * static_cast<double>(n), numbers,
                                   x.slice(0, n / 2, n, n / 4)[1].to(at::kLong) + n};
  };
  const std::vector<int64_t> sizes = {64, (int64_t{1} << 31) + 64, (int64_t{1} << 32) + 128};
  for (const bool large_first : {false, true}) {
    auto step = antegrad::compile(fn);
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < sizes.size(); ++i) {
        const auto n = sizes[large_first ? sizes.size() - 1 - i : i];
        auto x = at::empty({n}, at::kByte);
        x.narrow(0, n - 4, 4).copy_(at::tensor({1, 2, 3, 4}));
        x[n / 2 + n / 4].fill_(7);
        const auto eager = at::ones({4}).set_requires_grad(true);
        const auto compiled = at::ones({4}).set_requires_grad(true);
        const auto expected = fn(x, eager), found = step(x, compiled);
        EXPECT_TRUE(same_bits(expected, found)) << n;
        expected[0].sum().backward();
        found[0].sum().backward();
        EXPECT_TRUE(same_bits(eager.grad(), compiled.grad())) << n;
      }
    }
    EXPECT_EQ(step.report().programs.size(), sizes.size());
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

// Captured, planned and predicted, never run. A generated kernel would write none of the floats.
TEST(ManyShapes, BytesBeyond31Bits) {
  const auto fn = [](const at::Tensor& x) {
    return (x * 2).exp().t().reshape({-1, x.size(0)}).sum();
  };
  const auto peak = [&](auto& step, int64_t rows, int64_t columns) {
    step.warmup(at::zeros({1, 1}).expand({rows, columns}).set_requires_grad(true));
    return step.report().programs.back().predicted_peak_bytes;
  };
  for (const bool large_first : {false, true}) {
    auto step = antegrad::compile(fn, Options().with_lowering(Lowering::off));
    int64_t small = 0, large = 0;
    for (const bool is_large : {large_first, !large_first}) {
      (is_large ? large : small) =
          is_large ? peak(step, 1 << 17, 1 << 16) : peak(step, 1 << 7, 1 << 6);
    }
    EXPECT_NEAR(static_cast<double>(large) / static_cast<double>(small), 1 << 20, 1 << 14);
    EXPECT_GT(large, int64_t{1} << 35);  // 2^33 floats
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

}  // namespace many_shapes_test
}  // namespace antegrad::testing
