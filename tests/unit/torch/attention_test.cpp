// antegrad's own attention, compared with float64.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

namespace antegrad::testing {
namespace attention_test {

using List = std::vector<at::Tensor>;

List call(const char* name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  List results;
  for (const auto& value : stack) results.push_back(value.toTensor());
  return results;
}

bool has_kernels() {
  return at::get_cpu_capability() == "AVX512" || at::get_cpu_capability() == "AVX2";
}

struct Case {
  int64_t batch, heads, queries, keys, depth;
  bool causal;
  bool dense = false;  // memory as [batch, heads, rows, depth]; else of one projection
};

class Attention : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!has_kernels()) GTEST_SKIP() << "no kernels for this CPU";
    at::manual_seed(0);
  }

  at::Tensor rows(int64_t count) const {
    const auto& c = GetParam();
    if (c.dense) return at::randn({c.batch, c.heads, count, c.depth});
    return at::randn({c.batch, count, 3, c.heads, c.depth}).select(2, 1).transpose(1, 2);
  }
};

TEST_P(Attention, AndItsGradientsAreNearFloat64) {
  const auto& c = GetParam();
  const double scale = 1 / std::sqrt(static_cast<double>(c.depth));
  const List qkv{rows(c.queries), rows(c.keys), rows(c.keys)};
  const auto gradient = rows(c.queries);

  const auto found = call("antegrad::attention", {qkv[0], qkv[1], qkv[2], c.causal, scale});
  const auto gradients =
      call("antegrad::attention_backward",
           {gradient, qkv[0], qkv[1], qkv[2], found[0], found[1], c.causal, scale});

  List wide;
  for (const auto& t : qkv) wide.push_back(t.to(at::kDouble).detach().requires_grad_());
  auto scores = wide[0].matmul(wide[1].transpose(2, 3)) * scale;
  if (c.causal) {
    const auto later = at::ones({c.queries, c.keys}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -INFINITY);
  }
  const auto out = scores.softmax(-1).matmul(wide[2]);
  out.backward(gradient.to(at::kDouble));

  const auto error = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).abs().max().item<double>();
  };
  EXPECT_LT(error(found[0], out), 3e-6);
  EXPECT_LT(error(found[1], scores.logsumexp(-1)), 3e-6);
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(error(gradients[i], wide[i].grad()), 3e-5) << i;

  // In libtorch's layouts.
  const auto theirs =
      at::_scaled_dot_product_flash_attention_for_cpu(qkv[0], qkv[1], qkv[2], 0.0, c.causal);
  EXPECT_EQ(found[0].strides(), std::get<0>(theirs).strides());
  EXPECT_EQ(found[1].strides(), std::get<1>(theirs).strides());
  const auto of_theirs = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, qkv[0], qkv[1], qkv[2], std::get<0>(theirs), std::get<1>(theirs), 0.0, c.causal);
  EXPECT_EQ(gradients[0].strides(), std::get<0>(of_theirs).strides());
  EXPECT_EQ(gradients[1].strides(), std::get<1>(of_theirs).strides());
  EXPECT_EQ(gradients[2].strides(), std::get<2>(of_theirs).strides());
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Attention,
    ::testing::Values(Case{2, 3, 64, 64, 64, false}, Case{2, 3, 64, 64, 64, true},
                      Case{1, 1, 1, 1, 16, true}, Case{3, 2, 77, 77, 32, true},
                      Case{2, 2, 65, 65, 48, false, true}, Case{2, 2, 50, 19, 16, false},
                      Case{2, 2, 19, 50, 16, true}, Case{1, 2, 50, 19, 80, true, true},
                      Case{1, 5, 200, 333, 128, false}));

TEST(OwnAttention, ScoresMayBeLargeInfiniteOrNoNumbers) {
  if (!has_kernels()) GTEST_SKIP() << "no kernels for this CPU";
  at::manual_seed(0);
  auto q = at::randn({1, 1, 20, 16}), k = at::randn({1, 1, 20, 16}), v = at::randn({1, 1, 20, 16});
  q.mul_(100);
  q.select(2, 3).fill_(NAN);
  const auto found = call("antegrad::attention", {q, k, v, false, 1.0})[0];
  const auto expected = q.to(at::kDouble)
                            .matmul(k.to(at::kDouble).transpose(2, 3))
                            .softmax(-1)
                            .matmul(v.to(at::kDouble));
  EXPECT_TRUE(found.isnan().equal(expected.isnan()));
  EXPECT_TRUE(at::allclose(found.nan_to_num(), expected.nan_to_num().to(at::kFloat), 1e-3, 1e-3));
}

TEST(OwnAttention, RefusesWhatItHasNoKernelFor) {
  if (!has_kernels()) GTEST_SKIP() << "no kernels for this CPU";
  const auto odd = at::randn({1, 1, 4, 20});
  EXPECT_THROW(call("antegrad::attention", {odd, odd, odd, false, 1.0}), c10::Error);
  const auto wide = at::randn({1, 1, 4, 16}, at::kDouble);
  EXPECT_THROW(call("antegrad::attention", {wide, wide, wide, false, 1.0}), c10::Error);
  const auto q = at::randn({2, 3, 4, 16});
  for (const double scale : {0.0, -1.0, double{NAN}}) {
    EXPECT_THROW(call("antegrad::attention", {q, q, q, false, scale}), c10::Error) << scale;
  }
  for (const auto& other : {at::randn({2, 3, 0, 16}), at::randn({1, 3, 4, 16}),
                            at::randn({2, 1, 4, 16}), at::randn({2, 3, 4, 32}), q[0]}) {
    EXPECT_THROW(call("antegrad::attention", {q, other, other, false, 1.0}), c10::Error);
  }
  EXPECT_THROW(call("antegrad::attention", {q, q, at::randn({2, 3, 5, 16}), false, 1.0}),
               c10::Error);
  const auto sums = at::randn({2, 3, 4});
  for (const auto& [gradient, out, of_sums] :
       {std::tuple(q.slice(2, 0, 3), q, sums), {q, q.slice(2, 0, 3), sums}, {q, q, sums[0]}}) {
    EXPECT_THROW(
        call("antegrad::attention_backward", {gradient, q, q, q, out, of_sums, false, 1.0}),
        c10::Error);
  }
}

}  // namespace attention_test
}  // namespace antegrad::testing
