// Programs with generated kernels, compared with eager bit for bit.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <antegrad/checkpoint.h>
#include <antegrad/memory.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>

#include "common/measure.h"
#include "compile/lowering.h"
#include "exact_options.h"
#include "support/bits.h"
#include "training.h"

namespace antegrad::testing {
namespace lowered_test {

at::Tensor chain(const List& xs) {
  return ((xs[0] * xs[1] + xs[2]).sigmoid() + xs[0].tanh()).exp().sum();
}

// trained() on three random inputs.
template <class Callable>
List trained_on(Callable& callable, at::IntArrayRef sizes) {
  at::manual_seed(0);
  return trained(callable, List{leaf(sizes), leaf(sizes), leaf(sizes)});
}

TEST(Lowered, AChainIsOneKernelInEachDirection) {
  auto step = compile(chain, exact());
  EXPECT_TRUE(same_bits(trained_on(step, {33, 65}), trained_on(chain, {33, 65})));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_GE(report.programs.at(0).generated_kernels.size(), 2U) << report;
  EXPECT_EQ(report.programs.at(0).lowering_failure, "");
  EXPECT_TRUE(report.programs.at(0).node_runs.empty()) << report;
}

TEST(Lowered, CallsThatKernelsDoNotFitAreCounted) {
  const auto rows = [](const List& xs) { return (at::softmax(xs[0], -1) + xs[0]).exp(); };
  const auto gathered = [](const List& xs) { return at::index(xs[0], {xs[1]}).exp() + 1; };
  const auto node_runs = [](const auto& step) {
    const auto program = step.report().programs.at(0);
    EXPECT_EQ(program.generated_kernels.size(), 1U) << program;
    return program.node_runs;
  };
  const List table{at::randn({5, 8}), at::arange(5)};

  auto found = compile(gathered, exact());
  EXPECT_TRUE(same_bits({found(table)}, {gathered(table)}));
  EXPECT_TRUE(node_runs(found).empty());
  EXPECT_THROW(found(List{table[0], at::arange(1, 6)}), c10::IndexError);
  EXPECT_EQ(node_runs(found)["an index is out of bounds"], 1) << found.report();

  const int threads = at::get_num_threads();
  const List many{at::randn({64, 1000})};
  auto step = compile(rows, exact());
  at::set_num_threads(2);
  step(many);
  EXPECT_TRUE(node_runs(step).empty());
  at::set_num_threads(1);
  EXPECT_TRUE(same_bits({step(many)}, {rows(many)}));
  EXPECT_EQ(node_runs(step)["libtorch has another number of threads than the kernel was made for"],
            1)
      << step.report();
  at::set_num_threads(threads);
}

TEST(Lowered, AnyNumberOfThreadsAndAnySizeHasEagersBits) {
  const int threads = at::get_num_threads();
  auto step = compile(chain, exact());
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    for (const int64_t size : {1, 7, 64, 100, 32769, 100003}) {
      EXPECT_TRUE(same_bits(trained_on(step, {size}), trained_on(chain, {size})))
          << count << " threads, " << size << " elements";
    }
  }
  at::set_num_threads(threads);
  EXPECT_EQ(step.report().eager_calls, 0);
}

// Negative as a bit of the tensor, which no kernel reads.
TEST(Lowered, WhatIsLazilyNegatedRunsNodeByNode) {
  const auto fn = [](const List& xs) { return (at::_neg_view(xs[0]) * xs[1] + xs[2]).sigmoid(); };
  auto step = compile(fn, exact());
  const List inputs{at::randn({9, 5}), at::randn({9, 5}), at::randn({9, 5})};
  EXPECT_TRUE(same_bits({step(inputs)}, {fn(inputs)}));
  EXPECT_EQ(step.report().eager_calls, 0);
}

// A residual connection, a layer normalisation with weight and bias, and cross entropy.
at::Tensor classified(const List& xs) {
  const at::Tensor normal = at::layer_norm(xs[0] + xs[1], {xs[2].size(0)}, xs[2], xs[3]);
  return at::cross_entropy_loss(normal, xs[4]);
}

TEST(Lowered, SumsOverRowsAndClassesHaveEagersBits) {
  const int threads = at::get_num_threads();
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    auto step = compile(classified, exact());
    const auto gradients = [](auto& callable) {
      at::manual_seed(0);
      List inputs{leaf({70, 96}), leaf({70, 96}), leaf({96}), leaf({96})};
      inputs.push_back(at::randint(96, {70}, at::kLong));
      inputs.back().slice(0, 0, 70, 9).fill_(-100);  // ignored
      return trained(callable, inputs);
    };
    EXPECT_TRUE(same_bits(gradients(step), gradients(classified))) << count << " threads";
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_GE(report.programs.at(0).generated_kernels.size(), 2U) << report;
  }
  at::set_num_threads(threads);
}

// The logits of a classifier take most of its memory: eager has them, their log_softmax and their
// gradient at once.
struct Classifier {
  static constexpr int64_t kRows = 64, kClasses = 6000, kWidth = 16;
  static constexpr int64_t kLogits = kRows * kClasses * 4;

  static at::Tensor loss(const List& xs) {
    return at::cross_entropy_loss(at::linear(xs[0], xs[1]), xs[2]);
  }
  template <class Callable>
  static List gradients(Callable& callable) {
    const auto xs = inputs();
    callable(xs).backward();
    return {xs[0].grad(), xs[1].grad()};
  }
  template <class Callable>
  static int64_t peak(Callable& callable) {
    const auto xs = inputs();
    return examples::measure_memory([&] { return callable(xs); }).peak_bytes;
  }

 private:
  static List inputs() {
    at::manual_seed(0);
    return {at::randn({kRows, kWidth}).requires_grad_(),
            at::randn({kClasses, kWidth}).requires_grad_(), at::randint(kClasses, {kRows})};
  }
};

TEST(Lowered, CrossEntropyKeepsOneBufferOfLogits) {
  auto step = compile(Classifier::loss, exact());
  EXPECT_TRUE(same_bits(Classifier::gradients(step), Classifier::gradients(Classifier::loss)));
  EXPECT_GE(Classifier::peak(Classifier::loss), 3 * Classifier::kLogits);
  EXPECT_LE(Classifier::peak(step), 3 * Classifier::kLogits / 2);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Lowered, KernelsKeepBudgetsThatNoPlanWithoutThemKeeps) {
  const auto with = [](Lowering lowering, int64_t budget) {
    return compile(Classifier::loss, exact().with_lowering(lowering).with_memory_budget(budget));
  };
  constexpr int64_t budget = 3 * Classifier::kLogits / 2;
  auto without = with(Lowering::off, budget);
  EXPECT_THROW(Classifier::gradients(without), BudgetError);
  auto step = with(Lowering::exact, budget);
  EXPECT_TRUE(same_bits(Classifier::gradients(step), Classifier::gradients(Classifier::loss)));
  EXPECT_LE(Classifier::peak(step), budget);
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.programs.at(0).lowering_failure, "");

  // One that is too small even so: what the error names is kept whatever becomes of kernels.
  auto tiny = with(Lowering::exact, 1);
  try {
    Classifier::gradients(tiny);
    ADD_FAILURE() << "a budget of one byte was kept";
  } catch (const BudgetError& error) {
    auto smallest = with(Lowering::off, error.smallest_bytes());
    Classifier::gradients(smallest);
    EXPECT_LE(Classifier::peak(smallest), error.smallest_bytes());
  }
}

// Two steps in training: the second one starts from the statistics that the first one left.
TEST(Lowered, BatchNormalisationHasEagersBitsAndStatistics) {
  const auto normalised = [](const List& xs) {
    const at::Tensor y =
        at::batch_norm(xs[0], xs[1], xs[2], xs[3], xs[4], /*training=*/true, 0.1, 1e-5, false);
    return (y + xs[0]).relu().square().sum();
  };
  const auto steps = [](auto& callable) {
    at::manual_seed(0);
    List inputs;
    for (const auto& sizes : std::vector<std::vector<int64_t>>{{4, 6, 9, 7}, {6}, {6}}) {
      inputs.push_back(at::randn(sizes).requires_grad_());
    }
    inputs.push_back(at::randn({6}));
    inputs.push_back(at::rand({6}));
    List all;
    for (int step = 0; step < 2; ++step) {
      at::Tensor loss = callable(inputs);
      loss.backward();
      all.push_back(loss.detach());
    }
    for (int i = 0; i < 3; ++i) all.push_back(inputs[i].grad());
    all.insert(all.end(), inputs.begin() + 3, inputs.end());
    return all;
  };
  const int threads = at::get_num_threads();
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    auto step = compile(normalised, exact());
    EXPECT_TRUE(same_bits(steps(step), steps(normalised))) << count << " threads";
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    const auto& kernels = report.programs.at(0).generated_kernels;
    const auto computes = [&](const char* name) {
      return std::ranges::any_of(kernels, [&](const KernelReport& kernel) {
        return std::ranges::find(kernel.operators, name) != kernel.operators.end();
      });
    };
    EXPECT_TRUE(computes("functional__aten::native_batch_norm.default")) << report;
    // Libtorch 2.11 sums in code that was compiled otherwise, so the kernel does not prove itself.
    constexpr bool kHasRecipe = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR > 11;
    EXPECT_TRUE(!kHasRecipe || computes("aten::native_batch_norm_backward.default")) << report;
  }
  at::set_num_threads(threads);
}

// Parts of results, computed by a group or by others; gates that are slices of one product; values
// whose gradients are stacked.
TEST(Lowered, ACellOfAnLstmHasEagersBits) {
  const auto fn = [](const List& xs) {
    const auto inputs = xs[0].unbind(1);
    at::Tensor h = at::zeros_like(inputs[0]), c = h;
    List outputs;
    for (const auto& input : inputs) {
      const auto gates = (input.matmul(xs[1]) + h.matmul(xs[2])).chunk(4, 1);
      c = gates[0].sigmoid() * c + gates[1].sigmoid() * gates[2].tanh();
      h = gates[3].sigmoid() * c.tanh();
      outputs.push_back(h);
    }
    return at::stack(outputs, 1).square().sum();
  };
  auto step = compile(fn, exact());
  const auto gradients = [](auto& callable) {
    at::manual_seed(0);
    return trained(callable,
                   List{leaf({48, 3, 96}), leaf({96, 4 * 96}, 0.1), leaf({96, 4 * 96}, 0.1)});
  };
  EXPECT_TRUE(same_bits(gradients(step), gradients(fn)));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  const auto made_by_kernels = [&](const char* op) {
    return std::ranges::count_if(report.programs.at(0).generated_kernels, [&](const auto& kernel) {
      return std::ranges::find(kernel.operators, op) != kernel.operators.end();
    });
  };
  EXPECT_EQ(made_by_kernels("aten::stack.default"), 2) << report;  // outputs, gradients of inputs
  EXPECT_EQ(made_by_kernels("aten::cat.default"), 3) << report;
}

// at::lstm_cell() writes its gates in place, so they lie in memory with holes. The backward copies
// the saved ones there again; that happens in the kernel that reads them.
TEST(Lowered, GatesInMemoryWithHolesJoinKernels) {
  const auto fn = [](const List& xs) {
    at::Tensor h = at::zeros_like(xs[0]), c = h;
    for (int i = 0; i < 2; ++i) std::tie(h, c) = at::lstm_cell(xs[0], {h, c}, xs[1], xs[2]);
    return h.square().sum();
  };
  auto step = compile(fn, exact());
  const auto gradients = [](auto& callable) {
    at::manual_seed(0);
    return trained(callable,
                   List{leaf({40, 72}), leaf({4 * 72, 72}, 0.1), leaf({4 * 72, 72}, 0.1)});
  };
  EXPECT_TRUE(same_bits(gradients(step), gradients(fn)));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  const auto& program = report.programs.at(0);
  for (const auto& [reason, nodes] : program.not_generated) {
    EXPECT_EQ(reason.find("restride"), std::string::npos) << reason;
  }
  for (const auto& kernel : program.generated_kernels) {
    EXPECT_NE(kernel.operators, std::vector<std::string>{"antegrad::restride.default"}) << report;
  }
}

// A kernel of the sum and of what reads it after the products would keep two terms past them.
TEST(Lowered, AStepTakesNoMoreMemoryThanWithoutKernels) {
  const auto fn = [](const List& xs) {
    const auto sum = at::mm(xs[0], xs[1]) + at::mm(xs[1], xs[0]);
    const auto products = at::mm(at::mm(xs[0], xs[0]), at::mm(xs[1], xs[1]));
    return (sum * sum).exp() + products;
  };
  const List inputs{at::randn({128, 128}), at::randn({128, 128})};
  const auto peak = [&](Lowering lowering) {
    auto step = compile(fn, exact().with_lowering(lowering));
    EXPECT_TRUE(same_bits({step(inputs)}, {fn(inputs)}));
    MemoryMeter meter;
    step(inputs);
    const auto measured = meter.peak_bytes();
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_EQ(report.programs.at(0).predicted_peak_bytes, measured);
    if (lowering == Lowering::exact) {
      EXPECT_FALSE(report.programs.at(0).generated_kernels.empty());
    }
    return measured;
  };
  EXPECT_LE(peak(Lowering::exact), peak(Lowering::off));
}

TEST(Lowered, ReportsWhatKernelsRunAgain) {
  auto step = compile([](const at::Tensor& x) { return at::gelu(x).sin().sum(); },
                      exact().with_partition(Partitioner::min_cut));
  step(at::randn({64, 64}).requires_grad_()).backward();
  const auto report = step.report();
  EXPECT_EQ(report.programs.at(0).recomputed,
            (std::map<std::string, int64_t>{{"aten::gelu.default", 1}}))
      << report;
  // It is a part of the kernel of its gradient.
  EXPECT_TRUE(report.programs.at(0).recomputed_at.empty());
}

TEST(Lowered, ReportsWhereKernelsThatRunAgainDo) {
  auto step = compile(
      [](const at::Tensor& x, const at::Tensor& w) {
        const auto block = [](const at::Tensor& x, const at::Tensor& w) {
          return at::mm(at::gelu(x).sin(), w).sum();
        };
        return checkpoint(block, x, w);
      },
      exact().with_partition(Partitioner::min_cut));
  step(at::randn({64, 64}), at::randn({64, 64}).requires_grad_()).backward();
  const auto report = step.report();
  const auto& program = report.programs.at(0);
  EXPECT_EQ(program.recomputed,
            (std::map<std::string, int64_t>{{"aten::gelu.default", 1}, {"aten::sin.default", 1}}))
      << report;
  ASSERT_EQ(program.recomputed_at.size(), 1u) << report;
  const auto [from, to] = program.recomputed_at.front();
  EXPECT_GE(from, program.forward_nodes);
  EXPECT_EQ(to, from + 1);
}

// Eager reads the integer as it is, and 1001 is no bfloat16.
TEST(Lowered, IntegersOfOneElementAreNotRoundedToHalves) {
  const auto fn = [](const List& xs) { return (xs[0] * xs[1]).exp(); };
  auto step = compile(fn, exact());
  const List inputs{at::randn({37}).div_(100).to(at::kBFloat16),
                    at::scalar_tensor(1001, at::kLong)};
  EXPECT_TRUE(same_bits({step(inputs)}, {fn(inputs)}));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Lowered, MaxPoolingHasEagersBitsAndIndices) {
  for (const auto& [size, stride, padding] :
       {std::array<int64_t, 3>{2, 2, 0}, {3, 2, 1}, {3, 1, 0}, {2, 3, 1}}) {
    const auto fn = [=](const List& xs) {
      const auto [values, indices] =
          at::max_pool2d_with_indices(xs[0].relu(), size, stride, padding, 1, /*ceil_mode=*/true);
      return List{values, indices};
    };
    auto step = compile(fn, exact());
    auto image = at::randn({2, 3, 37, 50});
    image.index_put_({at::Tensor(), at::Tensor(), at::tensor({0, 5, 36})},
                     at::scalar_tensor(std::numeric_limits<float>::quiet_NaN()));
    EXPECT_TRUE(same_bits(step(List{image}), fn({image}))) << size << " " << stride;
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_EQ(report.programs.at(0).generated_kernels.size(), 2U) << report;
  }
}

// Halves, a transposed operand, ends of rows: what has no exact kernel.
TEST(Lowered, CloseKernelsAreAsAccurateAsEager) {
  const auto fn = [](const List& xs) {
    return at::softmax(at::gelu(xs[0] * xs[1].t() + xs[2]).tanh() * xs[2], -1);
  };
  const auto error = [](const at::Tensor& found, const at::Tensor& expected) {
    return (found.to(at::kDouble) - expected).square().mean().sqrt().item<double>();
  };
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    auto step = compile(fn, exact().with_lowering(Lowering::close));
    at::manual_seed(0);
    const List inputs{at::randn({65, 65}, type), at::randn({65, 65}, type),
                      at::randn({65, 65}, type)};
    List wide;
    for (const auto& input : inputs) wide.push_back(input.to(at::kDouble));
    const auto expected = fn(wide);
    EXPECT_LE(error(step(inputs), expected), 1.05 * error(fn(inputs), expected)) << type;
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_GE(report.programs.at(0).generated_kernels.size(), 1U) << report;
  }
}

// Gradients of weight and bias are sums over rows, in memory of their own.
TEST(Lowered, CloseSumsOverRowsOfFloat64KeepItsDigits) {
  const auto gradients = [](auto&& callable) {
    at::manual_seed(0);
    List inputs;
    for (const auto& sizes : std::vector<std::vector<int64_t>>{{70, 96}, {70, 96}, {96}, {96}}) {
      inputs.push_back(at::randn(sizes, at::kDouble).requires_grad_());
    }
    inputs.push_back(at::randint(96, {70}, at::kLong));
    callable(inputs).backward();
    return List{inputs[2].grad(), inputs[3].grad()};
  };
  auto step = compile(classified, exact().with_lowering(Lowering::close));
  const List found = gradients(step), expected = gradients(classified);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-12, 1e-14));
  EXPECT_EQ(step.report().eager_calls, 0);
}

class SlowKernels : public ::testing::Test {
 protected:
  ~SlowKernels() override { compiler::set_kernel_times(std::nullopt); }
};

TEST_F(SlowKernels, StayOutUnlessTheyAreKept) {
  const auto kernels = [](const Options& options) {
    auto step = compile(chain, options);
    EXPECT_TRUE(same_bits(trained_on(step, {33, 65}), trained_on(chain, {33, 65})));
    EXPECT_EQ(step.report().eager_calls, 0);
    return step.report().programs.at(0).generated_kernels.size();
  };
  const auto if_fast = Options().with_lowering(Lowering::exact);
  compiler::set_kernel_times(kernels::RunTimes{.kernel = 2000, .library = 1000});
  EXPECT_EQ(kernels(if_fast), 0U);
  EXPECT_GE(kernels(exact()), 2U);
  EXPECT_EQ(kernels(if_fast), 0U);
  compiler::set_kernel_times(kernels::RunTimes{.kernel = 1000, .library = 2000});
  EXPECT_GE(kernels(if_fast), 2U);
  // They make no memory for the links of the chain.
  compiler::set_kernel_times(kernels::RunTimes{.kernel = 1090, .library = 1000});
  EXPECT_GE(kernels(if_fast), 2U);
}

}  // namespace lowered_test
}  // namespace antegrad::testing
