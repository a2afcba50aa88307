// Numbers that nodes hold and that change from pass to pass: they become inputs, so that no pass is
// captured for another value.

#include <antegrad/antegrad.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backward/numbers.h"
#include "scenario.h"

namespace antegrad::testing {
namespace backward_numbers_test {

using Loss = std::function<at::Tensor(const List&, double)>;

/// A step with each value of a number, in a scope that serves all. Returns the scope's report.
BackwardReport expect_as_libtorch_for(const Loss& loss, const std::vector<double>& values,
                                      at::ScalarType dtype = at::kFloat) {
  at::manual_seed(0);
  List leaves;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{16, 8}, {8, 8}, {8}}) {
    leaves.push_back((at::rand(sizes) + 0.5).to(dtype).requires_grad_());
  }
  const auto run = [&](Notes& notes) {
    for (const double value : values) {
      loss(leaves, value).backward();
      notes.add_gradients(leaves);
    }
  };
  Notes expected, found;
  run(expected);
  CompiledBackward scope(exact_backward());
  run(found);
  expect_same_notes(found, expected);
  return scope.report();
}

std::vector<double> hundred() {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(1 + i / 7.0);
  return values;
}

at::Tensor layer(const List& p) { return at::tanh(p[0].mm(p[1]) + p[2]); }

TEST(BackwardNumbers, AFactorThatChangesCompilesTwice) {
  const auto report = expect_as_libtorch_for(
      [](const List& p, double factor) { return (layer(p) * factor).sum(); }, hundred());
  EXPECT_EQ(report.passes, 100);
  EXPECT_EQ(report.captures, 2) << report;  // with the first value, and with any
  EXPECT_EQ(report.graphs, 2);
  EXPECT_EQ(report.programs.size(), 1U) << "the first is given up";
  EXPECT_TRUE(report.eager_reasons.empty()) << report;
}

TEST(BackwardNumbers, OfEveryOperatorThatReadsOneAsANumber) {
  const std::vector<std::pair<const char*, Loss>> losses = {
      {"div", [](const List& p, double s) { return (layer(p) / s).sum(); }},
      {"add", [](const List& p, double s) { return at::add(layer(p), p[2], s).square().sum(); }},
      {"sub", [](const List& p, double s) { return at::sub(layer(p), p[2], s).square().sum(); }},
      {"rsub", [](const List& p, double s) { return (s - layer(p)).square().sum(); }},
      {"addmm", [](const List& p, double s) { return at::addmm(p[2], p[0], p[1], 1, s).sum(); }},
      {"addcmul",
       [](const List& p, double s) { return at::addcmul(p[2], layer(p), p[2], s).sum(); }},
      {"twice", [](const List& p, double s) { return (layer(p) * s * (s + 1)).sum(); }},
  };
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    const auto report = expect_as_libtorch_for(loss, {1.5, 2.5, -0.25, 0.0, -0.0, 1e-40, 3.75});
    EXPECT_LE(report.captures, 2) << report;
    EXPECT_TRUE(report.eager_reasons.empty()) << report;
  }
}

// Formulas that decide by the number, or take it apart: right, with a program a value if need be.
TEST(BackwardNumbers, ThatDecideAreConstants) {
  const std::vector<std::pair<const char*, Loss>> losses = {
      {"pow", [](const List& p, double s) { return layer(p).abs().pow(s).sum(); }},
      {"lerp", [](const List& p, double s) { return at::lerp(layer(p), p[2], s).sum(); }},
      {"leaky_relu", [](const List& p, double s) { return at::leaky_relu(layer(p), s).sum(); }},
      {"elu", [](const List& p, double s) { return at::elu(layer(p), s).sum(); }},
      {"clamp", [](const List& p, double s) { return at::clamp(layer(p), -s, s).sum(); }},
      {"softplus", [](const List& p, double s) { return at::softplus(layer(p), s).sum(); }},
      {"layer_norm",
       [](const List& p, double s) { return at::layer_norm(layer(p), {8}, {}, {}, s).sum(); }},
      {"norm", [](const List& p, double s) { return at::norm(layer(p), s); }},
      {"huber", [](const List& p, double s) { return at::huber_loss(layer(p), p[0], 1, s); }},
  };
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    expect_as_libtorch_for(loss, {0.5, 1.0, 2.0, 3.0, 0.25, 1.0, 2.0});
  }
}

TEST(BackwardNumbers, OfSeveralNodesAndInSeveralSteps) {
  const auto report = expect_as_libtorch_for(
      [](const List& p, double s) {
        const double other = s > 20 ? s * 3 : 0.5;  // changes later than the first
        return (layer(p) * s).sin().mul(other).add(p[2], s).sum() * 0.125;
      },
      {1, 2, 3, 21, 22, 23, 24});
  EXPECT_EQ(report.captures, 3) << report;
}

TEST(BackwardNumbers, InOtherTypes) {
  for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf}) {
    const auto report = expect_as_libtorch_for(
        [](const List& p, double s) { return (layer(p) * s / 3.0).sum(); },
        {1.1, 2.2, 0.3, 1e30, std::numeric_limits<double>::infinity(), std::nan("")}, dtype);
    EXPECT_EQ(report.captures, 2) << dtype << report;
  }
}

TEST(BackwardNumbers, WithHooksAndGradientsThatAreKept) {
  int calls = 0;
  const auto report = expect_as_libtorch_for(
      [&](const List& p, double s) {
        auto h = layer(p) * s;
        h.register_hook([&calls, s](const at::Tensor& g) {
          ++calls;
          return g * (s + 1);
        });
        h.retain_grad();
        return (h.sin() * s).sum();
      },
      {1, 2, 3, 4, 5});
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(report.graphs, 2) << report;
}

// ---- integers

using IntegerLoss = std::function<at::Tensor(const List&, int64_t)>;

BackwardReport expect_as_libtorch_for(const IntegerLoss& loss, int64_t from, int64_t to) {
  std::vector<double> values;
  for (int64_t i = from; i < to; ++i) values.push_back(static_cast<double>(i));
  return expect_as_libtorch_for(
      Loss([&](const List& p, double i) { return loss(p, static_cast<int64_t>(i)); }), values);
}

TEST(BackwardNumbers, IntegersOfEveryOperatorThatReadsOneAsANumber) {
  const std::vector<std::pair<const char*, IntegerLoss>> losses = {
      {"mul", [](const List& p, int64_t i) { return (layer(p) * i).sum(); }},
      {"div", [](const List& p, int64_t i) { return (layer(p) / i).sum(); }},
      {"add", [](const List& p, int64_t i) { return at::add(layer(p), p[2], i).square().sum(); }},
      {"rsub", [](const List& p, int64_t i) { return (i - layer(p)).square().sum(); }},
  };
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    const auto report = expect_as_libtorch_for(loss, 2, 20);
    EXPECT_LE(report.captures, 2) << report;
    EXPECT_TRUE(report.eager_reasons.empty()) << report;
  }
}

// Parts of what the pass computes: the index says where the gradient belongs.
TEST(BackwardNumbers, IndicesOfParts) {
  const std::vector<std::pair<const char*, IntegerLoss>> losses = {
      {"select", [](const List& p, int64_t i) { return layer(p).select(0, i).sin().sum(); }},
      {"start", [](const List& p, int64_t i) { return layer(p).narrow(0, i, 4).sin().sum(); }},
      {"both dimensions",
       [](const List& p, int64_t i) {
         return layer(p).narrow(0, i, 4).select(1, 7 - i % 8).sum();
       }},
  };
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    const auto report = expect_as_libtorch_for(loss, 0, 12);
    EXPECT_EQ(report.passes, 12);
    EXPECT_LE(report.captures, 3) << report;
    EXPECT_TRUE(report.eager_reasons.empty()) << report;
  }
}

TEST(BackwardNumbers, PartsOfLeavesAndBatchesOfADataSetLieElsewhereInEachPass) {
  const auto data = at::randn({12, 4, 16});
  const auto report = expect_as_libtorch_for(
      [&](const List& p, int64_t i) {
        return data[i].mm(p[0]).mul(p[0].narrow(0, i, 4)).tanh().sum();
      },
      0, 12);
  EXPECT_LE(report.captures, 2) << report;
  EXPECT_TRUE(report.eager_reasons.empty()) << report;
}

// A dimension decides, so each value has a program; there are few.
TEST(BackwardNumbers, IntegersThatDecideAreConstants) {
  const auto report = expect_as_libtorch_for(
      [](const List& p, int64_t i) { return layer(p).cumsum(i % 2).sin().sum(); }, 0, 6);
  EXPECT_LE(report.captures, 3) << report;
  EXPECT_TRUE(report.eager_reasons.empty()) << report;
}

TEST(BackwardNumbers, ThatDecideAndDoNotComeBackGetNoMorePrograms) {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back(1.5 + i / 16.0);
  const auto report = expect_as_libtorch_for(
      Loss([](const List& p, double s) { return layer(p).abs().pow(s).sum(); }), values);
  EXPECT_LE(report.captures, 20) << report;
  EXPECT_GT(report.eager_reasons.at("the last programs of a segment ran once each"), 0) << report;
}

TEST(BackwardNumbers, ReasonsNameThem) {
  const auto has = [](const BackwardReport& report, const std::string& text) {
    return std::ranges::any_of(report.recompiles, [&](const std::string& reason) {
      return reason.find(text) != std::string::npos;
    });
  };
  const auto integers = expect_as_libtorch_for(
      [](const List& p, int64_t i) { return layer(p).select(0, i).sum(); }, 3, 6);
  EXPECT_TRUE(has(integers, "(SelectBackward0) holds the number 4 instead of 3")) << integers;
  const auto decide = expect_as_libtorch_for(
      Loss([](const List& p, double s) { return layer(p).abs().pow(s).sum(); }), {1.5, 2.5, 3.5});
  EXPECT_TRUE(has(decide, "holds the number 2.5 instead of 1.5")) << decide;
  EXPECT_TRUE(has(decide, "is 3.5 instead of 2.5")) << decide;
}

struct Stepped : torch::autograd::Function<Stepped> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            int64_t step) {
    context->saved_data["step"] = step;
    return x * step;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * context->saved_data["step"].toInt(), at::Tensor()};
  }
};

TEST(BackwardNumbers, OfCustomFunctionsAreTheirs) {
  const auto report = expect_as_libtorch_for(
      [](const List& p, int64_t i) { return Stepped::apply(layer(p), i).sin().sum(); }, 1, 20);
  EXPECT_EQ(report.graphs, 1) << report;
}

// Two equal numbers of one node cannot be told apart, so each value is a graph of its own.
TEST(BackwardNumbers, AreNotGuessed) {
  const auto report = expect_as_libtorch_for(
      [](const List& p, double s) { return at::addmm(p[2], p[0], p[1], s, s).sum(); },
      {1.5, 2.5, 3.5});
  EXPECT_EQ(report.graphs, 3) << report;
}

// ---- keys

using backward::changed_numbers;
using backward::HeldNumber;
using backward::NumberedKey;

std::string bytes(double number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

NumberedKey key_of(const std::vector<double>& numbers, const std::string& between = "-") {
  NumberedKey key;
  key.key = "before";
  NumberedKey::OfNode node{.place = 3, .in_key = {key.key.size(), 0}};
  for (const double number : numbers) {
    node.numbers.emplace_back(number);
    key.key += between + bytes(number);
  }
  node.in_key.second = key.key.size();
  key.key += "behind";
  key.nodes.push_back(node);
  return key;
}

TEST(BackwardNumbers, AreFoundWhereBothKeysHaveThem) {
  const auto a = key_of({1.5, 2.5}), b = key_of({1.5, 3.5});
  const auto changed = changed_numbers(a, b);
  ASSERT_TRUE(changed);
  ASSERT_EQ(changed->size(), 1U);
  EXPECT_EQ(changed->at(0).place, 3);
  EXPECT_EQ(changed->at(0).argument, 1);
  EXPECT_EQ(std::get<double>(backward::number_in(a.key, changed->at(0))), 2.5);
  EXPECT_EQ(std::get<double>(backward::number_in(b.key, changed->at(0))), 3.5);
  EXPECT_TRUE(backward::same_but_for(a.key, b.key, *changed));
  EXPECT_TRUE(backward::same_but_for(a.key, key_of({1.5, 7}).key, *changed));
  EXPECT_FALSE(backward::same_but_for(a.key, key_of({1, 2.5}).key, *changed));
  EXPECT_FALSE(backward::same_but_for(a.key, a.key + "x", *changed));
}

TEST(BackwardNumbers, AreNoneWhereKeysDifferInMore) {
  EXPECT_FALSE(changed_numbers(key_of({1.5}), key_of({2.5}, "+")));
  EXPECT_FALSE(changed_numbers(key_of({1.5}), key_of({1.5, 2.5})));
  EXPECT_FALSE(changed_numbers(key_of({1.5, 1.5}), key_of({2.5, 2.5}))) << "which is which?";
  EXPECT_EQ(changed_numbers(key_of({1.5}), key_of({1.5}))->size(), 0U);
  auto other = key_of({2.5});
  other.key.back() = 'x';
  EXPECT_FALSE(changed_numbers(key_of({1.5}), other));
}

}  // namespace backward_numbers_test
}  // namespace antegrad::testing
