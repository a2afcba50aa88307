// What a training loop does around the model: several losses, accumulated gradients, frozen
// parameters, autocast, moves and files between calls.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/serialize.h>

#include <sstream>

#include "parts.h"

namespace antegrad::testing {
namespace training_loop_test {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

AG_MODEL_SUITE(TrainingLoop);

// Two layers with dropout between and two heads.
struct TwoHeads {
  Parts parts;
  nn::Linear body, head, second_head;
  nn::BatchNorm1d norm;
  nn::Dropout drop;

  TwoHeads()
      : body(parts.part("body", nn::Linear(5, 6))),
        head(parts.part("head", nn::Linear(6, 3))),
        second_head(parts.part("second_head", nn::Linear(6, 2))),
        norm(parts.part("norm", nn::BatchNorm1d(6))),
        drop(parts.part("drop", nn::Dropout(0.2))) {}

  at::Tensor features(const at::Tensor& x) { return drop(at::gelu(norm(body(x)))); }
};

List rows(StepData data) {
  return {data.normal({4, 5}), data.normal({4, 3}), data.integers(2, {4})};
}

Function one_loss(TwoHeads m) {
  return [=](const List& in) mutable -> List {
    return {F::mse_loss(m.head(m.features(in[0])), in[1])};
  };
}

Function three_losses(TwoHeads m) {
  return [=](const List& in) mutable -> List {
    const auto h = m.features(in[0]);
    return {F::mse_loss(m.head(h), in[1]), F::cross_entropy(m.second_head(h), in[2]),
            h.abs().mean()};
  };
}

// Backward from one of three losses, another in each step, then from all.
TEST_P(TrainingLoop, BackwardFromEachOfThreeLossesAlone) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    Learner learner{module, {three_losses(m)}, {sgd(*module)}, {}};
    learner.step = [=, optimizer = learner.optimizers[0]](const auto& functions, int i) {
      optimizer->zero_grad();
      const auto losses = functions[0](rows(StepData(setting, i)));
      if (i < 3) {
        losses[i].backward();
      } else {
        (losses[0] + losses[1] + losses[2]).backward();
      }
      optimizer->step();
      return losses;
    };
    return learner;
  };
  expect_learning_parity(make, GetParam());
}

// Three backward passes over one graph that is kept, in two orders.
TEST_P(TrainingLoop, BackwardFromThreeLossesOneAfterAnother) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    Learner learner{module, {three_losses(m)}, {sgd(*module)}, {}};
    learner.step = [=, optimizer = learner.optimizers[0]](const auto& functions, int i) {
      optimizer->zero_grad();
      const auto losses = functions[0](rows(StepData(setting, i)));
      for (int k = 0; k < 3; ++k) {
        const auto which = static_cast<size_t>(i % 2 == 0 ? k : 2 - k);
        losses[which].backward({}, /*retain_graph=*/k < 2);
      }
      optimizer->step();
      return losses;
    };
    return learner;
  };
  expect_learning_parity(make, GetParam());
}

// The gradients of two losses apart, without touching .grad, then a step along their sum.
TEST_P(TrainingLoop, GradientsOfTwoLossesByAutogradGrad) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    Learner learner{module, {three_losses(m)}, {sgd(*module)}, {}};
    learner.step = [=, optimizer = learner.optimizers[0]](const auto& functions, int i) {
      const auto losses = functions[0](rows(StepData(setting, i)));
      const auto parameters = module->parameters();
      auto seen = losses;
      for (size_t k : {0, 1}) {
        const auto grads =
            torch::autograd::grad({losses[k]}, parameters, {}, /*retain_graph=*/k == 0,
                                  /*create_graph=*/false, /*allow_unused=*/true);
        for (size_t p = 0; p < grads.size(); ++p) {
          seen.push_back(grads[p]);
          auto& grad = parameters[p].mutable_grad();
          if (!grads[p].defined()) continue;
          grad = k == 0 || !grad.defined() ? grads[p].clone() : grad + grads[p];
        }
      }
      optimizer->step();
      return seen;
    };
    return learner;
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(TrainingLoop, GradientsAccumulatedOverThreeMicroBatches) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    Learner learner{module, {one_loss(m)}, {adamw(*module)}, {}};
    learner.step = [=, optimizer = learner.optimizers[0]](const auto& functions, int i) {
      optimizer->zero_grad();
      List losses;
      for (int k = 0; k < 3; ++k) {
        losses.push_back(functions[0](rows(StepData(setting, 10 * i + k)))[0] / 3);
        losses.back().backward();
      }
      optimizer->step();
      return losses;
    };
    return learner;
  };
  expect_learning_parity(make, GetParam());
}

// Three forwards first, then one backward through all, or three in the other order.
TEST_P(TrainingLoop, ThreeForwardsBeforeTheBackward) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    Learner learner{module, {one_loss(m)}, {adamw(*module)}, {}};
    learner.step = [=, optimizer = learner.optimizers[0]](const auto& functions, int i) {
      optimizer->zero_grad(/*set_to_none=*/i % 2 == 0);
      List losses;
      for (int k = 0; k < 3; ++k) {
        losses.push_back(functions[0](rows(StepData(setting, 10 * i + k)))[0]);
      }
      if (i % 2 == 0) {
        (losses[0] * losses[1] + losses[2]).backward();
      } else {
        for (size_t k = 3; k-- > 0;) losses[k].backward();
      }
      optimizer->step();
      return losses;
    };
    return learner;
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(TrainingLoop, SomeParametersAreFrozen) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    m.body->weight.set_requires_grad(false);
    m.head->bias.set_requires_grad(false);
    auto module = m.parts.on(setting);
    return simple_learner(module, one_loss(m), sgd(*module), setting, rows);
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(TrainingLoop, ParametersAreFrozenAndThawedBetweenCalls) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    auto learner = simple_learner(module, one_loss(m), sgd(*module), setting, rows);
    learner.step = [=, inner = learner.step](const auto& functions, int i) {
      m.body->weight.set_requires_grad(i % 3 != 1);
      return inner(functions, i);
    };
    return learner;
  };
  expect_learning_parity(make, GetParam(), {.steps = 6, .programs = {2}});
}

// Parameters are moved by set_data, in place: the same tensors, another dtype.
TEST_P(TrainingLoop, TheModuleIsMovedToTheOtherPrecisionAndBack) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    Learner learner{
        module,
        {one_loss(m)},
        {std::make_shared<torch::optim::SGD>(module->parameters(), torch::optim::SGDOptions(0.1))},
        {}};
    learner.step = [=, optimizer = learner.optimizers[0]](const auto& functions, int i) {
      auto now = setting;
      if (i == 2 || i == 3) now.dtype = setting.dtype == at::kFloat ? at::kDouble : at::kFloat;
      optimizer->zero_grad();
      module->to(now.dtype);
      auto results = functions[0](rows(StepData(now, i)));
      results[0].backward();
      optimizer->step();
      return results;
    };
    return learner;
  };
  expect_learning_parity(make, GetParam(), {.steps = 6, .programs = {2}});
}

TEST_P(TrainingLoop, TheModuleIsSavedAndLoadedBetweenCalls) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    auto learner = simple_learner(module, one_loss(m), sgd(*module), setting, rows);
    auto saved = std::make_shared<std::stringstream>();
    learner.step = [=, inner = learner.step](const auto& functions, int i) mutable {
      if (i == 1) torch::save(module, *saved);
      if (i == 4) torch::load(module, *saved, setting.device);
      return inner(functions, i);
    };
    return learner;
  };
  expect_learning_parity(make, GetParam(), {.steps = 6});
}

TEST_P(TrainingLoop, ASubmoduleIsReplacedBetweenCalls) {
  const auto make = [](const Setting& setting) {
    TwoHeads m;
    auto module = m.parts.on(setting);
    Function fn = [=](const List& in) mutable -> List {
      auto& body = *module->named_children()["body"]->as<nn::LinearImpl>();
      return {F::mse_loss(m.head(at::gelu(m.norm(body.forward(in[0])))), in[1])};
    };
    auto learner = simple_learner(module, fn, sgd(*module), setting, rows);
    learner.step = [=, optimizer = learner.optimizers[0], inner = learner.step](
                       const auto& functions, int i) mutable {
      if (i == 2) {
        auto body = nn::Linear(5, 6);
        body->to(setting.device, setting.dtype);
        const at::NoGradGuard no_grad;  // the same for both, whatever the generator gives
        for (auto& p : body->parameters()) p.copy_(at::linspace(-1, 1, p.numel()).view(p.sizes()));
        module->replace_module("body", body);
        optimizer->param_groups()[0].params() = module->parameters();
      }
      return inner(functions, i);
    };
    return learner;
  };
  expect_learning_parity(make, GetParam(), {.steps = 5, .programs = {2}});
}

// Autocast for its lifetime; the cache of cast weights ends with it.
class Autocast {
 public:
  Autocast(at::DeviceType device, bool enabled) : device_(device) {
    before_ = at::autocast::is_autocast_enabled(device);
    dtype_ = at::autocast::get_autocast_dtype(device);
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, before_);
    at::autocast::set_autocast_dtype(device_, dtype_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool before_;
  at::ScalarType dtype_;
};

class AutocastLoop : public ::testing::TestWithParam<c10::Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, AutocastLoop, ::testing::ValuesIn(devices()),
                         [](const auto& info) {
                           return std::string(info.param.is_cpu() ? "Cpu" : "Cuda");
                         });

// A convolution, a normalisation and a linear layer whose weight is used twice, so that its cast is
// cached.
Learner cast_model(const Setting& setting, bool inside) {
  Parts parts;
  auto conv = parts.part("conv", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1)));
  auto norm = parts.part("norm", nn::LayerNorm(nn::LayerNormOptions({4})));
  auto twice = parts.part("twice", nn::Linear(4, 4));
  auto module = parts.on(setting);
  Function fn = [=](const List& in) mutable -> List {
    const auto x = at::relu(conv(in[0])).mean({2, 3});
    const auto logits = twice(at::gelu(twice(norm(x))));
    return {F::cross_entropy(logits, in[1]), logits.detach()};
  };
  if (inside) {
    fn = [fn, device = setting.device.type()](const List& in) -> List {
      const Autocast autocast(device, true);
      return fn(in);
    };
  }
  auto learner = simple_learner(module, fn, adam(*module), setting, [](StepData data) -> List {
    return {data.normal({2, 3, 6, 6}), data.integers(4, {2})};
  });
  return learner;
}

TEST_P(AutocastLoop, Bfloat16InsideTheCallable) {
  expect_learning_parity([](const Setting& s) { return cast_model(s, true); },
                         {GetParam(), at::kFloat});
}

TEST_P(AutocastLoop, Bfloat16AroundTheCall) {
  const auto make = [](const Setting& setting) {
    auto learner = cast_model(setting, false);
    auto optimizer = learner.optimizers[0];
    learner.step = [=](const auto& functions, int i) {
      StepData data(setting, i);
      const List in = {data.normal({2, 3, 6, 6}), data.integers(4, {2})};
      optimizer->zero_grad();
      List results;
      {
        const Autocast autocast(setting.device.type(), i != 2);
        results = functions[0](in);
      }
      results[0].backward();
      optimizer->step();
      return results;
    };
    return learner;
  };
  expect_learning_parity(make, {GetParam(), at::kFloat}, {.steps = 5, .programs = {2}});
}

}  // namespace training_loop_test
}  // namespace antegrad::testing
