// Kernels on a GPU, at the level `exact`: the bits of libtorch's.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/optim.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <string>
#include <vector>

#include "check/tensor_bits.h"
#include "common/models.h"
#include "exact_options.h"
#include "support/bits.h"
#include "training.h"

namespace antegrad::testing {
namespace cuda_exact_test {

using Call = std::function<at::Tensor(const List&)>;
struct Operator {
  const char* name;
  Call call;
};

class ExactOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
};

const std::vector<Operator>& unary() {
#define ANTEGRAD_UNARY(name)                              \
  {                                                       \
#name, [](const List& xs) { return at::name(xs[0]); } \
  }
  static const std::vector<Operator> all{
      ANTEGRAD_UNARY(neg),
      ANTEGRAD_UNARY(abs),
      ANTEGRAD_UNARY(sign),
      ANTEGRAD_UNARY(floor),
      ANTEGRAD_UNARY(ceil),
      ANTEGRAD_UNARY(trunc),
      ANTEGRAD_UNARY(round),
      ANTEGRAD_UNARY(sqrt),
      ANTEGRAD_UNARY(rsqrt),
      ANTEGRAD_UNARY(reciprocal),
      ANTEGRAD_UNARY(relu),
      ANTEGRAD_UNARY(exp),
      ANTEGRAD_UNARY(exp2),
      ANTEGRAD_UNARY(expm1),
      ANTEGRAD_UNARY(log),
      ANTEGRAD_UNARY(log2),
      ANTEGRAD_UNARY(log10),
      ANTEGRAD_UNARY(log1p),
      ANTEGRAD_UNARY(sin),
      ANTEGRAD_UNARY(cos),
      ANTEGRAD_UNARY(tan),
      ANTEGRAD_UNARY(asin),
      ANTEGRAD_UNARY(acos),
      ANTEGRAD_UNARY(atan),
      ANTEGRAD_UNARY(tanh),
      ANTEGRAD_UNARY(erf),
      ANTEGRAD_UNARY(erfc),
      ANTEGRAD_UNARY(sinh),
      ANTEGRAD_UNARY(cosh),
      ANTEGRAD_UNARY(sigmoid),
      ANTEGRAD_UNARY(silu),
      ANTEGRAD_UNARY(mish),
      ANTEGRAD_UNARY(hardswish),
      ANTEGRAD_UNARY(hardsigmoid),
      ANTEGRAD_UNARY(isnan),
      ANTEGRAD_UNARY(logical_not),
      ANTEGRAD_UNARY(gelu),
      ANTEGRAD_UNARY(softplus),
      ANTEGRAD_UNARY(elu),
      ANTEGRAD_UNARY(leaky_relu),
      {"gelu_tanh", [](const List& xs) { return at::gelu(xs[0], "tanh"); }},
      {"pow 0.5", [](const List& xs) { return xs[0].pow(0.5); }},
      {"pow 2", [](const List& xs) { return xs[0].pow(2); }},
      {"pow 3", [](const List& xs) { return xs[0].pow(3); }},
      {"pow -1", [](const List& xs) { return xs[0].pow(-1); }},
      {"clamp", [](const List& xs) { return xs[0].clamp(-1.5, 0); }},
      {"clamp_min", [](const List& xs) { return xs[0].clamp_min(0.1); }},
      {"clamp_max", [](const List& xs) { return xs[0].clamp_max(0); }},
      {"add number", [](const List& xs) { return xs[0].add(0.3, 1.7); }},
      {"rsub number", [](const List& xs) { return at::rsub(xs[0], 0.3, 1.7); }},
      {"mul number", [](const List& xs) { return xs[0].mul(0.3); }},
      {"div number", [](const List& xs) { return xs[0].div(0.3); }},
      {"lt number", [](const List& xs) { return xs[0].lt(0.3); }},
      {"to float64", [](const List& xs) { return xs[0].to(at::kDouble); }},
      {"to float16", [](const List& xs) { return (xs[0] * 1).to(at::kHalf); }},
      {"to bfloat16", [](const List& xs) { return (xs[0] * 1).to(at::kBFloat16); }},
      {"to bool", [](const List& xs) { return xs[0].to(at::kBool); }},
  };
#undef ANTEGRAD_UNARY
  return all;
}

// Of two operands and a third one, the gradients of operators among them.
const std::vector<Operator>& of_several() {
  static const std::vector<Operator> all{
      {"add", [](const List& xs) { return xs[0].add(xs[1], 0.7); }},
      {"sub", [](const List& xs) { return xs[0].sub(xs[1], 1.3); }},
      {"rsub", [](const List& xs) { return at::rsub(xs[0], xs[1], 0.7); }},
      {"mul", [](const List& xs) { return xs[0].mul(xs[1]); }},
      {"div", [](const List& xs) { return xs[0].div(xs[1]); }},
      {"addcmul", [](const List& xs) { return xs[0].addcmul(xs[1], xs[2], 0.7); }},
      {"addcmul 1", [](const List& xs) { return xs[0].addcmul(xs[1], xs[2]); }},
      {"addcdiv", [](const List& xs) { return xs[0].addcdiv(xs[1], xs[2], 0.7); }},
      {"lerp small", [](const List& xs) { return xs[0].lerp(xs[1], 0.2); }},
      {"lerp large", [](const List& xs) { return xs[0].lerp(xs[1], 0.8); }},
      {"lerp", [](const List& xs) { return xs[0].lerp(xs[1], xs[2]); }},
      {"eq", [](const List& xs) { return xs[0].eq(xs[1]); }},
      {"le", [](const List& xs) { return xs[0].le(xs[1]); }},
      {"where", [](const List& xs) { return at::where(xs[0].gt(xs[1]), xs[1], xs[2]); }},
      {"masked_fill", [](const List& xs) { return xs[0].masked_fill(xs[1].gt(xs[2]), 0.3); }},
      {"sigmoid_backward", [](const List& xs) { return at::sigmoid_backward(xs[0], xs[1]); }},
      {"tanh_backward", [](const List& xs) { return at::tanh_backward(xs[0], xs[1]); }},
      {"threshold_backward",
       [](const List& xs) { return at::threshold_backward(xs[0], xs[1], 0); }},
      {"leaky_relu_backward",
       [](const List& xs) { return at::leaky_relu_backward(xs[0], xs[1], 0.01, false); }},
      {"elu_backward of the result",
       [](const List& xs) { return at::elu_backward(xs[0], 1.5, 1.1, 0.7, true, xs[1]); }},
      {"elu_backward of the input",
       [](const List& xs) { return at::elu_backward(xs[0], 1.5, 1.1, 0.7, false, xs[1]); }},
      {"gelu_backward", [](const List& xs) { return at::gelu_backward(xs[0], xs[1]); }},
      {"gelu_tanh_backward",
       [](const List& xs) { return at::gelu_backward(xs[0], xs[1], "tanh"); }},
      {"silu_backward", [](const List& xs) { return at::silu_backward(xs[0], xs[1]); }},
      {"mish_backward", [](const List& xs) { return at::mish_backward(xs[0], xs[1]); }},
      {"softplus_backward",
       [](const List& xs) { return at::softplus_backward(xs[0], xs[1], 1, 20); }},
      {"hardswish_backward", [](const List& xs) { return at::hardswish_backward(xs[0], xs[1]); }},
      {"hardsigmoid_backward",
       [](const List& xs) { return at::hardsigmoid_backward(xs[0], xs[1]); }},
      {"hardtanh_backward",
       [](const List& xs) { return at::hardtanh_backward(xs[0], xs[1], -1, 1); }},
      {"dropout_backward",
       [](const List& xs) { return at::native_dropout_backward(xs[0], xs[1].gt(xs[2]), 1.3); }},
      {"mse_backward",
       [](const List& xs) {
         return at::mse_loss_backward(xs[0], xs[1], xs[2], at::Reduction::Mean);
       }},
      {"smooth_l1_backward",
       [](const List& xs) {
         return at::smooth_l1_loss_backward(xs[0], xs[1], xs[2], at::Reduction::Sum, 0.7);
       }},
      {"huber_backward",
       [](const List& xs) {
         return at::huber_loss_backward(xs[0], xs[1], xs[2], at::Reduction::Sum, 0.7);
       }},
  };
  return all;
}

// The number of elements of which a kernel's bits are not libtorch's; -1 if there was no kernel.
class Comparison {
 public:
  explicit Comparison(const Operator& op) : op_(op), compiled_(compile(op.call, exact())) {}

  void add(const List& inputs) {
    const at::NoGradGuard no_grad;
    const at::Tensor found = compiled_(inputs);
    differing_ += check::count_differing(found, op_.call(inputs));
  }

  void expect_none(at::ScalarType type, bool may_have_no_kernel = false) const {
    const auto report = compiled_.report();
    EXPECT_EQ(report.eager_calls, 0) << op_.name;
    const auto kernels = report.programs.at(0).generated_kernels.size();
    if (may_have_no_kernel && kernels == 0) return;
    EXPECT_GE(kernels, 1U) << op_.name << " of " << type
                           << ::testing::PrintToString(report.programs.at(0).not_generated);
    EXPECT_EQ(differing_, 0) << op_.name << " of " << type;
  }

 private:
  const Operator& op_;
  decltype(compile(Call(), Options())) compiled_;
  int64_t differing_ = 0;
};

// Tests have the names of operators.
template <class List>
auto names_of(const List& operators) {
  return [&operators](const ::testing::TestParamInfo<size_t>& info) {
    std::string name = operators[info.param].name;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
  };
}

class UnaryOnGpu : public ExactOnGpu, public ::testing::WithParamInterface<size_t> {};

TEST_P(UnaryOnGpu, OverAllFloats) {
  constexpr int64_t kAtOnce = int64_t{1} << 27;
  Comparison comparison(unary()[GetParam()]);
  for (int64_t begin = -(int64_t{1} << 31); begin < int64_t{1} << 31; begin += kAtOnce) {
    const auto bits = at::arange(begin, begin + kAtOnce, at::device(at::kCUDA).dtype(at::kInt));
    comparison.add({bits.view(at::kFloat)});
  }
  comparison.expect_none(at::kFloat);
}

TEST_P(UnaryOnGpu, OverAllHalves) {
  const auto bits = at::arange(-(1 << 15), 1 << 15, at::device(at::kCUDA)).to(at::kShort);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    Comparison comparison(unary()[GetParam()]);
    comparison.add({bits.view(type)});
    comparison.expect_none(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, UnaryOnGpu, ::testing::Range<size_t>(0, unary().size()),
                         names_of(unary()));

class SeveralOnGpu : public ExactOnGpu, public ::testing::WithParamInterface<size_t> {};

// Any bits, and numbers as they occur in networks.
TEST_P(SeveralOnGpu, OverRandomNumbers) {
  constexpr int64_t kCount = 1 << 24;
  at::manual_seed(0);
  const auto any = [](at::ScalarType type) {
    const auto bits = at::randint(-(int64_t{1} << 62), int64_t{1} << 62, {kCount},
                                  at::device(at::kCUDA).dtype(at::kLong));
    return bits.mul(5).view(type).narrow(0, 0, kCount).clone();
  };
  const auto usual = [](at::ScalarType type) {
    return at::randn({kCount}, at::device(at::kCUDA)).to(type);
  };
  const auto& op = of_several()[GetParam()];
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    Comparison comparison(op);
    for (int round = 0; round < 4; ++round) {
      comparison.add({any(type), any(type), any(type)});
      comparison.add({usual(type), usual(type), usual(type)});
    }
    const std::string name = op.name;
    const bool single = type == at::kFloat || type == at::kDouble;
    const bool loss = name.starts_with("smooth_l1") || name.starts_with("huber");
    comparison.expect_none(type, !single && loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, SeveralOnGpu, ::testing::Range<size_t>(0, of_several().size()),
                         names_of(of_several()));

// The gradient of cross entropy in one kernel.
TEST_F(ExactOnGpu, GradientsOfClasses) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t classes : {10, 1000, 4096, 50257}) {
      auto y = at::arange(300, at::kLong).mul(7).remainder(classes).to(at::kCUDA);
      y.slice(0, 0, 300, 9).fill_(-100);  // ignored
      const auto loss = [y](const List& xs) { return at::cross_entropy_loss(xs[0], y); };
      auto step = compile(loss, exact());
      at::manual_seed(0);
      const auto x = at::randn({300, classes}, at::device(at::kCUDA).dtype(type));
      const auto ours = trained(step, {x.clone().requires_grad_()});
      EXPECT_TRUE(same_bits(ours, trained(loss, {x.clone().requires_grad_()})))
          << type << " of " << classes;
      const auto report = step.report();
      EXPECT_EQ(report.eager_calls, 0);
      EXPECT_GE(report.programs.at(0).generated_kernels.size(), 1U) << report;
    }
  }
}

TEST_F(ExactOnGpu, TrainsToTheBit) {
  const auto trained_parameters = [](bool compiled) {
    at::manual_seed(0);
    examples::Mlp model(examples::MlpConfig{.layers = 4, .width = 256, .dropout = 0});
    model->to(at::kCUDA);
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
    const auto x = at::randn({128, 256}).to(at::kCUDA), y = at::randn({128, 256}).to(at::kCUDA);
    const auto loss = [model](const at::Tensor& a, const at::Tensor& b) mutable {
      return model->loss(a, b);
    };
    auto step = compile(model, loss, exact());
    for (int i = 0; i < 20; ++i) {
      optimizer.zero_grad();
      const at::Tensor value = compiled ? at::Tensor(step(x, y)) : model->loss(x, y);
      value.backward();
      optimizer.step();
    }
    if (compiled) {
      const auto report = step.report();
      EXPECT_EQ(report.eager_calls, 0);
      EXPECT_GE(report.programs.at(0).generated_kernels.size(), 2U) << report;
    }
    return model->parameters();
  };
  const auto eager = trained_parameters(false);
  EXPECT_TRUE(same_bits(eager, trained_parameters(false)));  // eager mode is the same each time
  EXPECT_TRUE(same_bits(trained_parameters(true), eager));
}

}  // namespace cuda_exact_test
}  // namespace antegrad::testing
