// Random graphs: with hooks, written views, custom functions, numbers and indices that change from
// pass to pass, graphs that are kept, and gradients that are there or not.

#include <antegrad/antegrad.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <random>
#include <string>

#include "scenario.h"
#include "support/long_tests.h"

namespace antegrad::testing {
namespace random_graphs_test {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kSize = 6;

struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto x = context->get_saved_variables()[0];
    return {gradients[0] * x * x * 3};
  }
};

/// Draws the same for the same seed.
class Draws {
 public:
  explicit Draws(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t count) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(count));
  }
  bool one_in(int64_t count) { return below(count) == 0; }
  const at::Tensor& of(const List& list) { return list[below(std::ssize(list))]; }

 private:
  std::mt19937_64 engine_;
};

/// `step`: of the pass, which numbers depend on.
at::Tensor next_value(Draws& draws, const List& pool, int64_t step) {
  const auto& a = draws.of(pool);
  const auto& b = draws.of(pool);
  switch (draws.below(18)) {
    case 0: return a.sin();
    case 1: return a * b;
    case 2: return at::add(a, b, 0.5);
    case 3: return a.mm(b).tanh();
    case 4: return a.t().contiguous();
    case 5: return at::layer_norm(a, {kSize});
    case 6: return at::softmax(a, 1);
    case 7: return at::relu(a) + b.t();
    case 8: return (a * (1.0 + 0.25 * static_cast<double>(step))).tanh();
    case 9: return (b * (step + 2)).sin();
    case 10: return a.select(0, step % kSize).expand({kSize, kSize}) * b;
    case 11: return at::cat({a.narrow(0, step % 3, 2), b.narrow(0, 0, kSize - 2)});
    case 12: return Cube::apply(a.tanh());
    case 13: {
      auto written = a.clone();
      written.narrow(1, 1, 2).mul_(b.narrow(1, 0, 2));
      return written;
    }
    case 14: return at::add(a, b).mul_(a);
    case 15: return a.cumsum(0).tanh();
    case 16: return at::where(a > b, a, b * 2);
    default: return a.exp().log1p();
  }
}

at::Tensor random_loss(uint64_t seed, const List& leaves, int64_t step, Notes& notes) {
  Draws draws(seed);
  List pool = leaves;
  for (auto left = 5 + draws.below(12); left > 0; --left) {
    auto value = next_value(draws, pool, step);
    if (draws.one_in(6)) {
      value.register_hook([&notes, step](const at::Tensor& g) {
        notes.add("hook", g);
        return g * (1 + 0.5 * static_cast<double>(step));
      });
    }
    pool.push_back(std::move(value));
  }
  auto loss = pool.back().mean();
  for (int i = 0; i < 2; ++i) loss = loss + draws.of(pool).square().mean() * (1.5 + i);
  return loss;
}

void run_random(uint64_t seed, Notes& notes) {
  Draws draws(seed * 31 + 7);
  const List leaves{leaf({kSize, kSize}), leaf({kSize, kSize}), leaf({kSize, kSize})};
  for (const auto& leaf : leaves) {
    if (draws.one_in(2)) leaf.mutable_grad() = at::randn({kSize, kSize});
    if (draws.one_in(5))
      leaf.register_hook([&notes](const at::Tensor& g) { notes.add("leaf", g); });
  }
  const bool keeps = draws.one_in(3), clears = draws.one_in(3);
  for (int64_t step = 0; step < 4; ++step) {
    const auto loss = random_loss(seed, leaves, step, notes);
    loss.backward({}, keeps);
    if (keeps) loss.backward();
    for (const auto& leaf : leaves) notes.add("gradient", leaf.grad());
    if (clears && step % 2 == 0) leaves[step % 3].mutable_grad() = at::Tensor();
  }
}

TEST(RandomBackwardGraphs, HaveTheEnginesGradientsAndHooks) {
  constexpr uint64_t kFew = 60, kMany = 5000;
  const auto count = long_tests() ? kMany : kFew;
  for (uint64_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(seed);
    Notes expected, found;
    at::manual_seed(seed);
    run_random(seed, expected);
    // Kernels take time to make: one of ten has them.
    const auto lowering = seed % 10 == 0 ? Lowering::exact : Lowering::off;
    const CompiledBackward scope(exact_backward().with_lowering(lowering));
    at::manual_seed(seed);
    run_random(seed, found);
    expect_same_notes(found, expected);
    const auto report = scope.report();
    EXPECT_TRUE(report.eager_reasons.empty()) << report;
    EXPECT_GT(report.nodes_compiled, 0) << report;
    if (HasFailure()) break;
  }
}

}  // namespace random_graphs_test
}  // namespace antegrad::testing
