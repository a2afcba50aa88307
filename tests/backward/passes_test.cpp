// Passes of all forms: what is asked for, what there is already, what is kept.

#include <antegrad/antegrad.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "scenario.h"

namespace antegrad::testing {
namespace passes_test {

using torch::autograd::grad;

at::Tensor two_layers(const List& p) {
  const auto x = at::ones({32, 8}) * 0.5;
  return at::linear(at::gelu(x.mm(p[0].t())), p[1], p[2]).square().mean();
}
List layer_leaves() { return {leaf({16, 8}), leaf({4, 16}), leaf({4})}; }

TEST(CompiledBackward, OnePassIsOneProgram) {
  const auto report = expect_as_libtorch([](Notes& notes) {
    const auto leaves = layer_leaves();
    two_layers(leaves).backward();
    notes.add_gradients(leaves);
  });
  EXPECT_EQ(report.passes, 3);
  EXPECT_EQ(report.graphs, 1);
  EXPECT_EQ(report.captures, 1);
  EXPECT_EQ(report.own_nodes.size(), 1U) << report;  // accumulators of leaves
  EXPECT_EQ(report.programs.size(), 1U);
}

TEST(CompiledBackward, AddsToGradientsThatAreThere) {
  const auto report = expect_as_libtorch([](Notes& notes) {
    const auto leaves = layer_leaves();
    for (int i = 0; i < 3; ++i) two_layers(leaves).backward();
    notes.add_gradients(leaves);
  });
  EXPECT_EQ(report.graphs, 2);  // without gradients, with gradients
}

TEST(CompiledBackward, KeepsTheGraphIfAsked) {
  expect_as_libtorch([](Notes& notes) {
    const auto leaves = layer_leaves();
    const auto loss = two_layers(leaves);
    loss.backward({}, /*retain_graph=*/true);
    notes.add_gradients(leaves);
    loss.backward();
    notes.add_gradients(leaves);
    try {
      loss.backward();
    } catch (const c10::Error& error) {
      notes.add(error.what_without_backtrace());
    }
    notes.add_gradients(leaves);
  });
}

TEST(CompiledBackward, GivesGradientsThatAreAskedFor) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({5}), b = leaf({5}), unused = leaf({2});
    const auto inner = (a * b).sin();
    const auto result = (inner * inner + inner.exp() + a).sum();
    for (const auto& gradient : grad({result}, {a, inner}, {}, /*retain_graph=*/true)) {
      notes.add("grad", gradient);
    }
    for (const auto& gradient :
         grad({result}, {unused, b}, {}, /*retain_graph=*/true, false, /*allow_unused=*/true)) {
      notes.add("grad", gradient);
    }
    notes.add_gradients({a, b});  // none
    torch::autograd::backward({result}, {}, {}, false, {inner, a});
    notes.add("of inner", inner.is_leaf() ? at::Tensor() : inner.grad());
    notes.add_gradients({a, b});
  });
}

TEST(CompiledBackward, FanInIsAddedInTheEnginesOrder) {
  const auto report = expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({256});
    const auto h = a * 1.7;
    (h.sin() + h.exp() * 3.3 + h.tanh() / 7 + h.sigmoid() * h.cos() + (h * h).sqrt())
        .sum()
        .backward();
    notes.add_gradients({a});
  });
  EXPECT_EQ(report.captures, 1);
}

TEST(CompiledBackward, SeveralRoots) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({4, 3}), b = leaf({3});
    const auto x = a * b, y = x.exp();
    torch::autograd::backward({x, y.sum(), x.t()}, {at::ones({4, 3}) * 2, {}, at::ones({3, 4})});
    notes.add_gradients({a, b});
  });
}

TEST(CompiledBackward, UndefinedGradientsAndUnusedResults) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({4, 6});
    const auto parts = a.exp().chunk(3, 1);
    (parts[0] * parts[2]).sum().backward();
    notes.add_gradients({a});
    const auto [values, indices] = a.max(1);
    const auto [u, s, v] = at::svd(a);
    (values.sum() + s.sum()).backward();
    notes.add_gradients({a});
  });
}

TEST(CompiledBackward, WrittenViewsAndCustomFunctions) {
  struct Scaled : torch::autograd::Function<Scaled> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                              double by) {
      context->save_for_backward({x});
      context->saved_data["by"] = by;
      return x * x * by;
    }
    static List backward(torch::autograd::AutogradContext* context, List gradients) {
      const auto x = context->get_saved_variables()[0];
      return {gradients[0] * 2 * x * context->saved_data["by"].toDouble(), at::Tensor()};
    }
  };
  double by = 1;
  Notes found, expected;
  const auto step = [&](Notes& notes) {
    const auto a = leaf({6});
    const auto base = a * 1.5;
    base.slice(0, 0, 3).mul_(a.slice(0, 3, 6));
    (Scaled::apply(base, by).sin() * base).sum().backward();
    notes.add_gradients({a});
  };
  for (int i = 0; i < 5; ++i) {
    by = i + 0.5;
    at::manual_seed(i);
    step(expected);
  }
  CompiledBackward scope(exact_backward());
  for (int i = 0; i < 5; ++i) {
    by = i + 0.5;
    at::manual_seed(i);
    step(found);
  }
  expect_same_notes(found, expected);
  EXPECT_EQ(scope.report().graphs, 1) << "a changed number in a custom function is no other graph";
}

TEST(CompiledBackward, OtherSizesAreOtherGraphs) {
  const auto report = expect_as_libtorch([](Notes& notes) {
    for (const int64_t rows : {3, 5, 3}) {
      const auto a = leaf({rows, 4}), b = leaf({4, 2});
      a.mm(b).relu().expand({2, rows, 2}).sum().backward();
      notes.add_gradients({a, b});
    }
  });
  EXPECT_EQ(report.graphs, 2);
}

TEST(CompiledBackward, SparseGradients) {
  const auto report = expect_as_libtorch(
      [](Notes& notes) {
        const auto table = leaf({10, 4});
        const auto rows = at::embedding(table, at::tensor({1, 3, 3}), -1, false, /*sparse=*/true);
        rows.square().sum().backward();
        notes.add("is sparse", at::tensor(static_cast<int64_t>(table.grad().is_sparse())));
        table.mutable_grad() = table.grad().to_dense();
        notes.add_gradients({table});
      },
      /*times=*/3, /*some_refused=*/true);
  EXPECT_EQ(report.own_nodes.at("EmbeddingBackward0"), 2);  // since it was refused
}

TEST(CompiledBackward, ComplexNumbersThatAreConjugatedLazily) {
  expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({4});
    const auto z = at::complex(a, a * 0.5);
    notes.add_gradients({a});
    at::real(z * at::conj(z)).sum().backward();
    notes.add_gradients({a});
  });
}

// Stand-ins are "subclass-like" tensors, for which some formulas have other roundings or strides.
TEST(CompiledBackward, FormulasThatComputeOtherwiseForStandIns) {
  const auto report = expect_as_libtorch([](Notes& notes) {
    const auto a = leaf({4, 2, 3});
    const auto x = (a * 1).transpose(0, 2);
    const auto selected = at::masked_select(x, x < 0).sin().sum();
    const auto result = selected + x.max() + x.abs().prod();
    torch::autograd::backward({result, x}, {at::ones({}), at::ones({}).expand({3, 2, 4})});
    notes.add_gradients({a});
  });
  EXPECT_EQ(report.own_nodes.at("ProdBackward0"), 3) << report;
}

TEST(CompiledBackward, LeavesCreateGraphAndAnomaliesToLibtorch) {
  const auto report = expect_as_libtorch(
      [](Notes& notes) {
        const auto a = leaf({5});
        const auto first = grad({(a.sin() * a).sum()}, {a}, {}, true, /*create_graph=*/true)[0];
        first.square().sum().backward();
        notes.add_gradients({a});
      },
      /*times=*/1);
  EXPECT_EQ(report.left_to_libtorch.at("create_graph"), 1);
  EXPECT_EQ(report.passes, 1);
}

TEST(CompiledBackward, SaysInWhichNodeAnotherGraphDiffers) {
  const CompiledBackward scope(exact_backward());
  const auto run = [](int64_t rows, const std::function<at::Tensor(const at::Tensor&)>& f) {
    f(leaf({rows, 4})).sum().backward();
  };
  const auto newest = [&] {
    const auto reasons = scope.report().recompiles;
    return reasons.empty() ? std::string() : reasons.back();
  };
  run(2, [](const at::Tensor& x) { return x.exp().sin(); });
  EXPECT_EQ(newest(), "");
  run(8, [](const at::Tensor& x) { return x.exp().sin(); });
  EXPECT_EQ(newest(), "node 1 (SinBackward0) gets a gradient of sizes [8, 4] instead of [2, 4]");
  run(2, [](const at::Tensor& x) { return x.tanh().sin(); });
  EXPECT_EQ(newest(), "node 2 is TanhBackward0 instead of ExpBackward0");
  run(2, [](const at::Tensor& x) { return x.exp().sin().cumsum(0); });
  EXPECT_EQ(newest(), "node 1 is CumsumBackward0 instead of SinBackward0");
  run(2, [](const at::Tensor& x) { return x.exp().sin().cumsum(1); });
  EXPECT_EQ(newest(), "node 1 (CumsumBackward0) holds the number 1 instead of 0");
  run(2, [](const at::Tensor& x) {
    const auto y = x.exp();
    y.register_hook([](const at::Tensor& g) { return g; });
    return y.sin();
  });
  EXPECT_EQ(newest(),
            "node 2 (ExpBackward0) has other edges or hooks, or another gradient is asked for");
  run(2, [](const at::Tensor& x) { return x.exp().sin(); });
  EXPECT_EQ(scope.report().recompiles.size(), 5U);
}

TEST(CompiledBackward, ScopesNestAndEnd) {
  const auto a = leaf({3});
  const auto pass = [&] { a.exp().sum().backward(); };
  {
    const CompiledBackward outer;
    pass();
    {
      const CompiledBackward inner;
      pass();
      {
        const EagerBackward eager;
        pass();
      }
      EXPECT_EQ(inner.report().passes, 1);
    }
    pass();
    EXPECT_EQ(outer.report().passes, 2);
  }
  pass();
}

// Graphs of nodes that differ in a list of integers, which is no input.
void expect_rolled(const at::Tensor& a, int64_t shift) {
  const auto weights = at::arange(3, at::kFloat);
  (a.roll({shift}, {0}) * weights).sum().backward();
  EXPECT_TRUE(same_bits(a.grad(), weights.roll({-shift}, {0})));
  a.mutable_grad() = at::Tensor();
}

TEST(CompiledBackward, ForgetsTheGraphsUsedLeastRecently) {
  const auto a = leaf({3});
  CompiledBackward scope(exact_backward().with_max_programs(2));
  for (const int64_t shift : {2, 3, 2, 4, 2, 3}) expect_rolled(a, shift);
  const auto report = scope.report();
  EXPECT_EQ(report.passes, 6);
  EXPECT_EQ(report.graphs, 4);     // 3 twice
  EXPECT_EQ(report.evictions, 2);  // of 3, then of 4
  EXPECT_TRUE(report.eager_reasons.empty()) << report;
}

TEST(CompiledBackward, MakesNoProgramsForGraphsThatDoNotComeBack) {
  const auto a = leaf({3});
  CompiledBackward scope(exact_backward());
  for (int64_t shift = 2; shift < 32; ++shift) expect_rolled(a, shift);
  const auto before = scope.report();
  EXPECT_EQ(before.passes, 30);
  EXPECT_EQ(before.graphs, 16);
  EXPECT_EQ(before.eager_reasons.at("the last graphs ran once each"), 14 * 4);
  // One comes back: then others may.
  expect_rolled(a, 17);
  expect_rolled(a, 100);
  EXPECT_EQ(scope.report().graphs, 17);
}

TEST(CompiledBackward, NewSizesAlwaysGetPrograms) {
  const auto a = leaf({3});
  CompiledBackward scope(exact_backward());
  for (int64_t size = 2; size < 32; ++size) a.expand({size, 3}).exp().sum().backward();
  EXPECT_EQ(scope.report().graphs, 30);
  EXPECT_TRUE(scope.report().eager_reasons.empty()) << scope.report();
}

// A kernel takes a tensor without dimensions on the host as a number. Moved to the GPU it would be
// a tensor, with which some operators compute otherwise.
TEST(CompiledBackward, NumbersInTensorsOnTheHostAreTakenByKernelsOnAGpu) {
  if (devices().size() < 2) GTEST_SKIP() << "no CUDA device";
  const auto device = devices()[1];
  for (const auto dtype : {at::kFloat, at::kHalf, at::kDouble}) {
    const auto report = expect_as_libtorch([&](Notes& notes) {
      const auto x = at::randn({64}).to(device, dtype).requires_grad_();
      for (int step = 1; step < 5; ++step) {
        const auto factor = at::scalar_tensor(0.1 * step, at::kFloat);
        const auto y = (x * factor).sin() / factor + at::where(x > 0, x, factor.to(dtype));
        (y * y).sum().backward();
        notes.add_gradients({x});
      }
    });
    EXPECT_EQ(report.graphs, 1) << report;
    EXPECT_TRUE(report.left_to_libtorch.empty()) << report;
  }
}

TEST(CompiledBackward, ResetForgetsPrograms) {
  const auto a = leaf({3});
  CompiledBackward scope;
  a.exp().sum().backward();
  a.mutable_grad() = at::Tensor();
  scope.reset();
  a.exp().sum().backward();
  EXPECT_EQ(scope.report().captures, 2);
}

}  // namespace passes_test
}  // namespace antegrad::testing
