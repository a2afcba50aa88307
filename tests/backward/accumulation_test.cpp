// Passes that add to gradients that are there: the sum is part of the program, in the memory of the
// gradient.

#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>

#include "common/models.h"
#include "runtime/at_once.h"
#include "scenario.h"
#include "support/failing_memory.h"

namespace antegrad::testing {
namespace backward_accumulation_test {

constexpr const char* kAccumulator = "torch::autograd::AccumulateGrad";

at::Tensor loss_of(const List& p) {
  return at::layer_norm(at::gelu(p[0].mm(p[1])) * p[2].exp(), {16}, p[3]).square().mean();
}
List leaves_of(at::ScalarType dtype = at::kFloat) {
  List made;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{8, 16}, {16, 16}, {16}, {16}}) {
    made.push_back(at::randn(sizes).to(dtype).requires_grad_());
  }
  return made;
}

/// Each gradient, whether it is the tensor that it was, and by how much its version has risen.
class Watched {
 public:
  explicit Watched(const List& leaves) : leaves_(leaves) {
    for (const auto& leaf : leaves) {
      gradients_.push_back(leaf.grad());
      versions_.push_back(leaf.grad().defined() ? leaf.grad()._version() : 0);
    }
  }
  void note(Notes& notes) const {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const auto& grad = leaves_[i].grad();
      notes.add(c10::str(grad.strides(), gradients_[i].is_same(grad), " ",
                         grad._version() - versions_[i], " ", grad.requires_grad()),
                grad);
    }
  }

 private:
  List leaves_, gradients_;
  std::vector<int64_t> versions_;
};

TEST(BackwardAccumulation, IsPartOfTheProgram) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto report = expect_as_libtorch([&](Notes& notes) {
      const auto p = leaves_of(dtype);
      loss_of(p).backward();
      for (int step = 0; step < 3; ++step) {
        const Watched watched(p);
        loss_of(p).backward();
        watched.note(notes);
      }
    });
    EXPECT_EQ(report.graphs, 2) << report;
    EXPECT_EQ(report.own_nodes.at(kAccumulator), 3 * 4) << "only the first pass steals" << report;
    EXPECT_NE(report.recompiles.back().find("finds a gradient in its leaf instead of no gradient"),
              std::string::npos)
        << report;
  }
}

TEST(BackwardAccumulation, WithoutKernelsToo) {
  Notes expected, found;
  const auto run = [](Notes& notes) {
    at::manual_seed(0);
    const auto p = leaves_of();
    loss_of(p).backward();
    const Watched watched(p);
    loss_of(p).backward();
    watched.note(notes);
  };
  run(expected);
  const CompiledBackward scope(exact_backward().with_lowering(Lowering::off));
  run(found);
  expect_same_notes(found, expected);
  EXPECT_EQ(scope.report().own_nodes.at(kAccumulator), 4);
}

TEST(BackwardAccumulation, NeedsNoMemoryForTheGradient) {
  constexpr int64_t kElements = 1 << 20;
  const auto p = leaf({kElements});
  const CompiledBackward scope(exact_backward().with_kept_memory(KeptMemory::free));
  for (int step = 0; step < 2; ++step) p.sin().sum().backward();
  const auto loss = p.sin().sum();
  const MemoryMeter meter;
  loss.backward();
  EXPECT_LT(meter.peak_bytes(), kElements) << "an eighth of the gradient";
}

TEST(BackwardAccumulation, OfAModelOverSmallBatches) {
  const auto report = expect_as_libtorch(
      [](Notes& notes) {
        const examples::GptConfig config{
            .vocabulary = 32, .layers = 2, .width = 32, .heads = 2, .context = 16};
        examples::Gpt model(config);
        for (int batch = 0; batch < 4; ++batch) {
          const auto tokens = at::randint(32, {2, 16});
          model->loss(tokens, tokens).backward();
        }
        notes.add_gradients(model->parameters());
      },
      /*times=*/2);
  EXPECT_EQ(report.graphs, 2) << report;
}

TEST(BackwardAccumulation, RetainedAndThroughHooks) {
  expect_as_libtorch([](Notes& notes) {
    const auto p = leaves_of();
    loss_of(p).backward();
    p[1].register_hook([&](const at::Tensor& g) {
      notes.add("hook", g);
      return g * 2;
    });
    const auto loss = loss_of(p);
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    const Watched watched(p);
    loss_of(p).backward();
    watched.note(notes);
  });
}

// A hook in the middle sees and changes gradients as in the engine.
TEST(BackwardAccumulation, WithHooksThatReadAndResetGradients) {
  expect_as_libtorch([](Notes& notes) {
    const auto p = leaves_of();
    for (int step = 0; step < 3; ++step) {
      auto h = p[0].mm(p[1]).tanh();
      h.register_hook([&](const at::Tensor&) {
        for (const auto& leaf : p) notes.add("in a hook", leaf.grad());
        if (step == 2) p[0].mutable_grad() = at::Tensor();
        if (step == 1) p[1].mutable_grad().mul_(3);
      });
      (h * p[2].exp() + p[3].sin()).square().sum().backward();
      for (const auto& leaf : p) notes.add("behind", leaf.grad());
    }
  });
}

using Change = std::function<void(const List&)>;

/// A pass after `change` of the gradients.
void expect_as_libtorch_after(const Change& change, bool own_nodes = true) {
  const auto report = expect_as_libtorch([&](Notes& notes) {
    const auto p = leaves_of();
    loss_of(p).backward();
    change(p);
    for (int step = 0; step < 2; ++step) {
      const Watched watched(p);
      loss_of(p).backward();
      watched.note(notes);
    }
  });
  const auto own = report.own_nodes.find(kAccumulator);
  EXPECT_EQ(own->second > 3 * 4, own_nodes) << report;
}

TEST(BackwardAccumulation, IntoGradientsOfOtherFormsOrMemory) {
  {
    SCOPED_TRACE("other strides");
    expect_as_libtorch_after(
        [](const List& p) { p[1].mutable_grad() = p[1].grad().t().contiguous().t(); });
  }
  {
    SCOPED_TRACE("views of one memory");
    expect_as_libtorch_after([](const List& p) {
      const auto flat = at::ones({8 * 16 + 16 * 16});
      p[0].mutable_grad() = flat.narrow(0, 0, 8 * 16).view({8, 16});
      p[1].mutable_grad() = flat.narrow(0, 8 * 16, 16 * 16).view({16, 16});
    });
  }
  {
    SCOPED_TRACE("requires grad");
    expect_as_libtorch_after([](const List& p) { p[1].mutable_grad().requires_grad_(); });
  }
  {
    SCOPED_TRACE("of a graph");
    expect_as_libtorch_after(
        [](const List& p) {
          loss_of(p).backward({}, /*retain_graph=*/false, /*create_graph=*/true);
          for (const auto& leaf : p) leaf.mutable_grad() = leaf.grad().detach();
        },
        /*own_nodes=*/false);
  }
}

TEST(BackwardAccumulation, IntoAGradientOfSeveralLeaves) {
  expect_as_libtorch(
      [](Notes& notes) {
        const auto p = leaves_of();
        loss_of(p).backward();
        p[3].mutable_grad() = p[2].grad();
        loss_of(p).backward();
        notes.add_gradients(p);
      },
      3);
}

// The gradient is a saved tensor of the pass as well: the engine's error, if it adds first.
TEST(BackwardAccumulation, IntoAGradientThatThePassReads) {
  for (const bool later : {false, true}) {
    expect_as_libtorch([&](Notes& notes) {
      const auto p = leaves_of();
      loss_of(p).backward();
      try {
        const auto& used = p[later ? 2 : 1].grad();
        auto h = p[0].mm(p[1]);
        h = later ? (h * used).tanh() * p[2] : (h.tanh() * p[2]).mm(used);
        h.square().sum().backward();
      } catch (const c10::Error& error) {
        notes.add(error.what_without_backtrace());
      }
      notes.add_gradients(p);
    });
  }
}

TEST(BackwardAccumulation, OfSparseGradients) {
  const Scenario scenario = [](Notes& notes) {
    const auto weight = leaf({10, 4}), other = leaf({4});
    for (int step = 0; step < 3; ++step) {
      const auto rows = at::embedding(weight, at::arange(4), -1, false, /*sparse=*/true);
      (rows * other).square().sum().backward();
      notes.add("sum", weight.grad().to_dense());
      notes.add("sum", other.grad());
    }
    (weight * 2).sum().backward();
    notes.add("dense", weight.grad());
  };
  expect_as_libtorch(scenario, /*times=*/3, /*some_refused=*/true);
}

TEST(BackwardAccumulation, FromThreadsThatShareLeaves) {
  constexpr int kThreads = 8, kSteps = 25;
  const auto p = at::ones({64}).requires_grad_(), q = at::ones({64}).requires_grad_();
  const CompiledBackward scope(exact_backward());
  for (int step = 0; step < 2; ++step) (p * 2 + q * 3).sum().backward();
  at_once(kThreads, [&](int thread) {
    for (int step = 0; step < kSteps; ++step) {
      (thread % 2 == 0 ? (p * 2 + q * 3) : (q * 3 + p * 2)).sum().backward();
    }
  });
  constexpr double kPasses = kThreads * kSteps + 2;
  EXPECT_TRUE(at::equal(p.grad(), at::full({64}, 2 * kPasses)));
  EXPECT_TRUE(at::equal(q.grad(), at::full({64}, 3 * kPasses)));
  EXPECT_EQ(p.grad()._version(), kPasses - 1);
}

// Each gradient is as it was or has its sum, never a part of it, and the error says so.
TEST(BackwardAccumulation, ThatFailsLeavesWholeSums) {
  const FailingMemory memory;
  at::manual_seed(0);
  const auto p = leaves_of();
  CompiledBackward scope(
      exact_backward().with_lowering(Lowering::off).with_kept_memory(KeptMemory::free));
  loss_of(p).backward();
  List before, sums;
  for (const auto& leaf : p) before.push_back(leaf.grad().clone());
  loss_of(p).backward();
  for (const auto& leaf : p) sums.push_back(leaf.grad().clone());
  bool said = false;
  int64_t at = 0;
  for (;; ++at) {
    SCOPED_TRACE(at);
    for (size_t i = 0; i < p.size(); ++i) p[i].mutable_grad() = before[i].clone();
    const auto loss = loss_of(p);
    FailingMemory::fail_after(at);
    std::string error;
    try {
      loss.backward({}, /*retain_graph=*/true);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    FailingMemory::fail_after(-1);
    if (!FailingMemory::has_failed()) break;
    for (size_t i = 0; i < p.size(); ++i) {
      const auto& found = p[i].grad();
      EXPECT_TRUE(same_numbers(found, before[i]) || same_numbers(found, sums[i])) << i;
    }
    said |= error.find("the gradients of 4 leaves") != std::string::npos;
    for (size_t i = 0; i < p.size(); ++i) p[i].mutable_grad() = before[i].clone();
    const EagerBackward eager;
    loss.backward();
    for (size_t i = 0; i < p.size(); ++i) EXPECT_TRUE(same_numbers(p[i].grad(), sums[i])) << i;
  }
  EXPECT_GT(at, 5);
  EXPECT_TRUE(said);
}

TEST(BackwardAccumulation, OnCuda) {
  if (devices().size() < 2) GTEST_SKIP() << "no CUDA device";
  const auto device = devices()[1];
  const auto report = expect_as_libtorch([&](Notes& notes) {
    List p;
    for (const auto& cpu : leaves_of()) p.push_back(cpu.detach().to(device).requires_grad_());
    for (int step = 0; step < 3; ++step) loss_of(p).backward();
    notes.add_gradients(p);
  });
  EXPECT_EQ(report.own_nodes.at(kAccumulator), 3 * 4) << report;
}

}  // namespace backward_accumulation_test
}  // namespace antegrad::testing
