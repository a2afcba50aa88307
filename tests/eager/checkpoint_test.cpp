// Checkpointed blocks in eager code, compared with the same code without checkpoints, bit for bit.

#include "eager/runner.h"

namespace antegrad::testing {
namespace checkpoint_test {

struct Linear {
  at::Tensor weight, bias;
  Linear(int64_t in, int64_t out, at::TensorOptions options = {})
      : weight(leaf({out, in}, options)), bias(leaf({out}, options)) {}
  at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
};

struct Mlp {
  Linear a, b;
  explicit Mlp(int64_t size, at::TensorOptions options = {})
      : a(size, 2 * size, options), b(2 * size, size, options) {}
  at::Tensor operator()(const at::Tensor& x) const { return b(at::gelu(a(x))); }
  List parameters() const { return {a.weight, a.bias, b.weight, b.bias}; }
};

class Checkpoint : public ::testing::TestWithParam<c10::Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Checkpoint, ::testing::ValuesIn(devices()),
                         [](const auto& info) { return info.param.is_cpu() ? "cpu" : "cuda"; });

TEST_P(Checkpoint, GradientsOfInputsAndOfClosureParameters) {
  expect_like_eager(
      [](const Runner& run) {
        const Mlp mlp(8, GetParam());
        const auto x = leaf({5, 8}, GetParam());
        const auto y = run([mlp](const at::Tensor& x) { return x + mlp(x); }, x);
        y.pow(2).sum().backward();
        return List{y} + grads(mlp.parameters()) + grads({x});
      },
      1);
}

TEST_P(Checkpoint, ConsecutiveBlocksWithDropout) {
  expect_like_eager(
      [](const Runner& run) {
        const std::vector<Mlp> blocks{Mlp(8, GetParam()), Mlp(8, GetParam()), Mlp(8, GetParam())};
        const auto x = leaf({5, 8}, GetParam());
        auto y = x;
        List all;
        for (const auto& mlp : blocks) {
          y = run([mlp](const at::Tensor& x) { return x + at::dropout(mlp(x), 0.4, true); }, y);
          y = y + at::rand_like(y);
        }
        y.pow(2).sum().backward();
        const auto after = at::rand({3}, GetParam());
        for (const auto& mlp : blocks) all = all + grads(mlp.parameters());
        return all + grads({x}) + List{y, after};
      },
      3);
}

TEST_P(Checkpoint, ParametersAloneRequireGrad) {
  expect_like_eager(
      [](const Runner& run) {
        const Mlp mlp(4, GetParam());
        const auto x = at::randn({3, 4}, GetParam());
        run([mlp](const at::Tensor& x) { return mlp(x); }, x).sum().backward();
        return grads(mlp.parameters());
      },
      1);
}

TEST(CheckpointNumbers, ABlockWithoutArguments) {
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({4});
        run([w] { return (w.sin() * w).sum(); }).backward();
        return grads({w});
      },
      1);
}

TEST(CheckpointNumbers, ASharedBlockThatUsesItsParametersTwice) {
  expect_like_eager(
      [](const Runner& run) {
        const Mlp mlp(16);
        const auto x = leaf({64, 16});
        const auto block = [mlp](const at::Tensor& x) { return mlp(at::tanh(mlp(x))); };
        auto y = mlp(run(block, run(block, mlp(x))));
        y.pow(2).sum().backward();
        return grads(mlp.parameters()) + grads({x});
      },
      2);
}

TEST(CheckpointNumbers, AnInputThatIsUsedOutsideTooIsSummedInEagersOrder) {
  expect_like_eager(
      [](const Runner& run) {
        const auto x = leaf({1000});
        const auto h = x * 1.1;
        const auto y = run([](const at::Tensor& h) { return h.sin() * h.cos() + h.exp(); }, h);
        (y * h + h.tanh() / 3).sum().backward();
        return grads({x});
      },
      1);
}

TEST(CheckpointNumbers, ANonLeafTensorOfTheClosure) {
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({8, 8});
        const auto x = leaf({3, 8});
        const auto scaled = (w * 0.5).tanh();
        const auto y = run([scaled](const at::Tensor& x) { return x.matmul(scaled).relu(); }, x);
        (y.sum() + scaled.pow(2).sum()).backward();
        return grads({w, x});
      },
      1);
}

TEST(CheckpointNumbers, BlocksInsideBlocks) {
  expect_like_eager(
      [](const Runner& run) {
        const Mlp a(8), b(8), c(8);
        const auto x = leaf({6, 8});
        const auto y = run(
            [a, b, c, run](const at::Tensor& x) {
              auto h = run([a](const at::Tensor& x) { return at::dropout(a(x), 0.3, true); }, x);
              h = run(
                  [b, c, run](const at::Tensor& h) {
                    return b(run([c](const at::Tensor& h) { return c(h).sin(); }, h));
                  },
                  h.relu());
              return h + x;
            },
            x);
        y.pow(2).sum().backward();
        return List{y} + grads(a.parameters()) + grads(b.parameters()) + grads(c.parameters()) +
               grads({x});
      },
      // Outer: once more. First inner: in the outer's, and for itself. Second: the same. Innermost:
      // in the outer's, in the second's, and for itself.
      1 + 2 + 2 + 3);
}

TEST(CheckpointNumbers, GradOfInputsAndParameters) {
  expect_like_eager(
      [](const Runner& run) {
        const Mlp mlp(8);
        const auto x = leaf({5, 8});
        const auto h = x.sin();
        const auto y = run([mlp](const at::Tensor& h) { return mlp(h); }, h);
        auto some = torch::autograd::grad({y.sum()}, {h, mlp.a.weight}, {}, /*retain_graph=*/true);
        auto others = torch::autograd::grad({y.pow(2).sum()}, {mlp.b.bias, x, y});
        EXPECT_FALSE(mlp.a.weight.grad().defined());
        return some + others;
      },
      2);
}

TEST(CheckpointNumbers, RetainedGraphsRunAgainEachTime) {
  expect_like_eager(
      [](const Runner& run) {
        const Mlp mlp(8);
        const auto x = leaf({5, 8});
        const auto y =
            run([mlp](const at::Tensor& x) { return at::dropout(mlp(x), 0.5, true); }, x).sum();
        y.backward({}, /*retain_graph=*/true);
        y.backward({}, /*retain_graph=*/true);
        y.backward();
        return grads(mlp.parameters()) + grads({x});
      },
      3);
}

TEST(CheckpointNumbers, SecondDerivatives) {
  // One path through the block, so that no sum can be associated differently.
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({6});
        const auto x = leaf({6});
        const auto y = run([w](const at::Tensor& x) { return (x * w).exp(); }, x);
        const auto g = torch::autograd::grad({y}, {x}, {at::ones({6})}, true, true)[0];
        const auto gg = torch::autograd::grad({g}, {x, w}, {at::ones({6})}, true, true);
        return List{g} + gg;
      },
      // The second pass meets the block in the first one's graph, and nowhere else.
      1);
}

TEST(CheckpointNumbers, SecondDerivativesThroughAModelAreEagersUpToRounding) {
  const auto penalty = [](const Runner& run) {
    torch::manual_seed(3);
    const auto options = at::TensorOptions(at::kDouble);
    const Mlp a(8, options), b(8, options);
    const auto x = leaf({5, 8}, options);
    auto y = run([a](const at::Tensor& x) { return x + a(x); }, x);
    y = run([b](const at::Tensor& x) { return b(x).tanh(); }, y);
    const auto g = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    (g.pow(2).sum() + y.pow(2).sum()).backward();
    return grads(a.parameters()) + grads(b.parameters()) + grads({x});
  };
  const Runner plain(false), checkpointed(true);
  const auto expected = penalty(plain);
  const auto found = penalty(checkpointed);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-12, 1e-12)) << i;
  }
  EXPECT_GT(checkpointed.runs(), plain.runs());
}

TEST(CheckpointNumbers, ManyUsesOfAParameterInOneBlock) {
  expect_like_eager(
      [](const Runner& run) {
        const auto w = leaf({8, 8});
        const auto x = leaf({3, 8});
        const auto y = run(
            [w](const at::Tensor& x) {
              auto h = x;
              for (int i = 0; i < 10; ++i) h = h.matmul(w).tanh();
              return h;
            },
            x);
        y.sum().backward();
        return grads({w, x});
      },
      1);
}

TEST(CheckpointNumbers, ACompiledFunctionInABlock) {
  expect_like_eager(
      [](const Runner& run) {
        const Mlp mlp(8);
        auto compiled = compile([mlp](const at::Tensor& x) { return mlp(x).sin(); });
        const auto x = leaf({5, 8});
        auto y = run([&compiled](const at::Tensor& x) { return compiled(x.tanh()) + x; }, x);
        y.pow(2).sum().backward();
        EXPECT_EQ(compiled.report().eager_calls, 0);
        return List{y} + grads(mlp.parameters()) + grads({x});
      },
      1);
}

TEST(CheckpointNumbers, ABlockInACompiledFunction) {
  const Mlp mlp(8);
  const auto x = at::randn({5, 8});
  auto compiled = compile([mlp](const at::Tensor& x) {
    return checkpoint([mlp](const at::Tensor& x) { return mlp(x); }, x).sin();
  });
  EXPECT_TRUE(same_bits(compiled(x), mlp(x).sin()));
  EXPECT_EQ(compiled.report().eager_calls, 0);
}

}  // namespace checkpoint_test
}  // namespace antegrad::testing
