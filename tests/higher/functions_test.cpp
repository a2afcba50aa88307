// Second and third derivatives of functions, taken outside of the compiled callable.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "higher/orders.h"

namespace antegrad::testing {
namespace {

struct Case {
  std::string name;
  ListFunction function;
};

std::ostream& operator<<(std::ostream& out, const Case& it) { return out << it.name; }

using T = const at::Tensor&;

ListFunction unary(at::Tensor (*function)(T)) {
  return [=](const List& xs) -> List { return {function(xs[0])}; };
}
ListFunction of_two(at::Tensor (*function)(T, T)) {
  return [=](const List& xs) -> List { return {function(xs[0], xs[1])}; };
}

const std::vector<Case>& cases() {
  static const auto* const all = new std::vector<Case>{
      {"sin", unary([](T x) { return x.sin(); })},
      {"cos", unary([](T x) { return x.cos(); })},
      {"exp", unary([](T x) { return x.exp(); })},
      {"expm1", unary([](T x) { return x.expm1(); })},
      {"log", unary([](T x) { return (x * x + 1).log(); })},
      {"log1p", unary([](T x) { return (x * x).log1p(); })},
      {"sqrt", unary([](T x) { return (x * x + 1).sqrt(); })},
      {"rsqrt", unary([](T x) { return (x * x + 1).rsqrt(); })},
      {"reciprocal", unary([](T x) { return (x * x + 1).reciprocal(); })},
      {"tanh", unary([](T x) { return x.tanh(); })},
      {"sigmoid", unary([](T x) { return x.sigmoid(); })},
      {"log_sigmoid", unary([](T x) { return at::log_sigmoid(x); })},
      {"silu", unary([](T x) { return at::silu(x); })},
      {"gelu", unary([](T x) { return at::gelu(x); })},
      {"gelu_tanh", unary([](T x) { return at::gelu(x, "tanh"); })},
      {"softplus", unary([](T x) { return at::softplus(x); })},
      {"elu", unary([](T x) { return at::elu(x); })},
      {"mish", unary([](T x) { return at::mish(x); })},
      {"leaky_relu", unary([](T x) { return at::leaky_relu(x, 0.1) * x; })},
      {"relu", unary([](T x) { return x.relu() * x * x; })},
      {"hardswish", unary([](T x) { return at::hardswish(x) * x; })},
      {"pow", unary([](T x) { return x.pow(4); })},
      {"atan", unary([](T x) { return x.atan(); })},
      {"sinh", unary([](T x) { return x.sinh(); })},
      {"erf", unary([](T x) { return x.erf(); })},
      {"square", unary([](T x) { return x.square().square(); })},
      {"softmax", unary([](T x) { return x.softmax(-1); })},
      {"log_softmax", unary([](T x) { return x.log_softmax(-1); })},
      {"logsumexp", unary([](T x) { return x.logsumexp(1); })},
      {"sum", unary([](T x) { return x.sum(0).sin(); })},
      {"mean", unary([](T x) { return x.mean(1).exp(); })},
      {"cumsum", unary([](T x) { return x.cumsum(0).cos(); })},
      {"norm", unary([](T x) { return x.norm(2, -1); })},
      {"var", unary([](T x) { return x.var(1); })},
      {"transpose", unary([](T x) { return x.t(); })},
      {"chunks", [](const List& xs) -> List { return xs[0].sin().chunk(2, 0); }},
      {"index", unary([](T x) { return x.sin().index_select(0, at::arange(2)) * x[1]; })},
      {"clamp", unary([](T x) { return x.clamp(-0.5, 0.5) * x.sin(); })},
      {"where", unary([](T x) { return at::where(x > 0, x.exp(), x.sin()); })},
      {"layer_norm", unary([](T x) { return at::layer_norm(x, {x.size(-1)}); })},
      {"group_norm", unary([](T x) { return at::group_norm(x.unsqueeze(0), 2); })},
      {"mul", of_two([](T x, T y) { return x * y * x; })},
      {"div", of_two([](T x, T y) { return x / (y * y + 1); })},
      {"atan2", of_two([](T x, T y) { return at::atan2(x, y); })},
      {"mm", of_two([](T x, T y) { return x.mm(y.t()).tanh(); })},
      {"mm_twice", of_two([](T x, T y) { return x.mm(y.t()).sin().mm(x).exp(); })},
      {"mse_loss", of_two([](T x, T y) { return at::mse_loss(x.sin(), y.cos()); })},
      {"huber_loss", of_two([](T x, T y) { return at::huber_loss(x * x, y); })},
      {"cosine", of_two([](T x, T y) { return at::cosine_similarity(x, y); })},
      {"where_two", of_two([](T x, T y) { return at::where(x > y, x * x * y, y.exp()); })},
      {"conv", [](const List& xs) -> List {
         return {at::conv1d(xs[0].unsqueeze(0), xs[1].slice(0, 0, 2).reshape({1, 4, 3})).tanh()};
       }},
      {"dropout", unary([](T x) { return at::dropout(x.sin(), 0.4, true) * x; })},
      {"two results", [](const List& xs) -> List {
         const auto h = xs[0].tanh();
         return {h * xs[1], h.exp().sum()};
       }},
  };
  return *all;
}

List inputs() {
  at::manual_seed(3);
  return {at::randn({4, 6}).requires_grad_(), at::randn({4, 6}).requires_grad_()};
}

class HigherDerivatives : public ::testing::TestWithParam<Case> {};

TEST_P(HigherDerivatives, OfThirdOrderHaveEagersBits) {
  expect_higher_orders(3, GetParam().function, inputs(), /*nonlinear=*/false);
}

TEST_P(HigherDerivatives, OfSecondOrderOfANonlinearLossHaveEagersBits) {
  expect_higher_orders(2, GetParam().function, inputs(), /*nonlinear=*/true);
}

INSTANTIATE_TEST_SUITE_P(Functions, HigherDerivatives, ::testing::ValuesIn(cases()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (auto& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace antegrad::testing
