// antegrad::cross_entropy and its gradient against libtorch's operators, bit by bit.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "support/bits.h"

namespace antegrad::testing {
namespace cross_entropy_test {

using List = std::vector<at::Tensor>;

c10::OperatorHandle named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

std::tuple<at::Tensor, at::Tensor> cross_entropy(const at::Tensor& logits, const at::Tensor& target,
                                                 int64_t reduction, int64_t ignored) {
  static const auto op = named("antegrad::cross_entropy")
                             .typed<std::tuple<at::Tensor, at::Tensor>(
                                 const at::Tensor&, const at::Tensor&, int64_t, int64_t)>();
  return op.call(logits, target, reduction, ignored);
}

at::Tensor gradient(const at::Tensor& logits, const at::Tensor& tangent, const at::Tensor& target,
                    const at::Tensor& total, int64_t reduction, int64_t ignored) {
  static const auto op =
      named("antegrad::cross_entropy_backward")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const at::Tensor&, int64_t, int64_t)>();
  return op.call(logits, tangent, target, total, reduction, ignored);
}

at::Tensor& gradient_in_place(at::Tensor& logits, const at::Tensor& tangent,
                              const at::Tensor& target, const at::Tensor& total, int64_t reduction,
                              int64_t ignored) {
  static const auto op = named("antegrad::cross_entropy_backward_")
                             .typed<at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                const at::Tensor&, int64_t, int64_t)>();
  return op.call(logits, tangent, target, total, reduction, ignored);
}

// The form for GPUs.
List in_two_steps(const at::Tensor& logits, const at::Tensor& target, int64_t reduction,
                  int64_t ignored) {
  static const auto rows = named("antegrad::cross_entropy_rows")
                               .typed<at::Tensor(const at::Tensor&, const at::Tensor&, int64_t)>();
  static const auto sum = named("antegrad::cross_entropy_of_rows")
                              .typed<std::tuple<at::Tensor, at::Tensor>(
                                  const at::Tensor&, const at::Tensor&, int64_t, int64_t)>();
  const auto [loss, total] =
      sum.call(rows.call(logits, target, ignored), target, reduction, ignored);
  return {loss, total};
}

// Loss, weight and gradient.
List ours(at::Tensor logits, const at::Tensor& target, int64_t reduction, double tangent) {
  const auto [loss, total] = cross_entropy(logits, target, reduction, 2);
  EXPECT_TRUE(same_bits(in_two_steps(logits, target, reduction, 2), {loss, total}));
  const auto one = at::scalar_tensor(tangent, at::kFloat);
  const auto found = gradient(logits, one, target, total, reduction, 2);
  gradient_in_place(logits, one, target, total, reduction, 2);
  EXPECT_TRUE(same_bits(found, logits));
  return {loss, total, found};
}

List eager(const at::Tensor& logits, const at::Tensor& target, int64_t reduction, double tangent) {
  const auto rows = logits.to(at::kFloat).view({-1, logits.size(-1)});
  const auto logs = at::_log_softmax(rows, 1, false);
  const auto [loss, total] = at::nll_loss_forward(logs, target, std::nullopt, reduction, 2);
  const auto of_losses = at::nll_loss_backward(at::scalar_tensor(tangent, at::kFloat), logs, target,
                                               std::nullopt, reduction, 2, total);
  const auto found = at::_log_softmax_backward_data(of_losses, logs, 1, at::kFloat);
  return {loss, total, found.view(logits.sizes()).to(logits.scalar_type())};
}

void expect_same_bits(const at::Tensor& logits, const at::Tensor& target) {
  for (const int64_t reduction : {at::Reduction::Mean, at::Reduction::Sum}) {
    const auto expected = eager(logits, target, reduction, 1.7);
    EXPECT_TRUE(same_bits(ours(logits.clone(), target, reduction, 1.7), expected))
        << logits.sizes() << " " << logits.scalar_type() << " " << reduction;
  }
}

// Chunks of 131072 classes have 4 rows.
TEST(CrossEntropy, OfAnyNumberOfRowsHasEagersBits) {
  const int threads = at::get_num_threads();
  at::manual_seed(0);
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
      for (const auto& [rows, classes] : std::vector<std::pair<int64_t, int64_t>>{{0, 7},
                                                                                  {1, 9},
                                                                                  {1, 40001},
                                                                                  {37, 5},
                                                                                  {301, 1003},
                                                                                  {1200, 2000},
                                                                                  {9, 131072},
                                                                                  {13, 140001}}) {
        const auto target = at::randint(classes, {rows});
        expect_same_bits(at::randn({rows, classes}).mul(4).to(type), target);
      }
    }
  }
  at::set_num_threads(threads);
}

TEST(CrossEntropy, OfInfinitiesNaNAndIgnoredRowsHasEagersBits) {
  constexpr auto kInfinity = std::numeric_limits<float>::infinity();
  at::manual_seed(0);
  auto logits = at::randn({3, 5, 700});
  logits[0][0][4] = kInfinity;
  logits[0][1].fill_(-kInfinity);
  logits[1][2][699] = NAN;
  logits[2].select(1, 3).fill_(-kInfinity);
  const auto target = at::randint(700, {15});
  target.slice(0, 3, 9).fill_(2);  // ignored
  expect_same_bits(logits.to(at::kBFloat16), target);
  expect_same_bits(logits.to(at::kBFloat16), at::full({15}, 2, at::kLong));
}

TEST(CrossEntropy, AClassThatIsNoneIsEagersError) {
  const auto logits = at::randn({4, 6}).to(at::kHalf);
  for (const int64_t wrong : {6, -1}) {
    const auto target = at::full({4}, wrong, at::kLong);
    const auto words = "Target " + std::to_string(wrong) + " is out of bounds.";
    try {
      cross_entropy(logits, target, at::Reduction::Mean, -100);
      ADD_FAILURE() << "no error";
    } catch (const c10::IndexError& error) {
      EXPECT_EQ(error.what_without_backtrace(), words);
    }
  }
}

}  // namespace cross_entropy_test
}  // namespace antegrad::testing
