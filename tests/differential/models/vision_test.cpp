// Convolutional models.

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "parts.h"

namespace antegrad::testing {
namespace vision_test {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

AG_MODEL_SUITE(Vision);

List images_and_classes(StepData data) {
  return {data.normal({2, 3, 8, 8}), data.integers(5, {2})};
}

// Two 3x3 convolutions around a shortcut, which is projected where the shape changes.
struct BasicBlockImpl : nn::Module {
  BasicBlockImpl(int64_t in, int64_t out, int64_t stride)
      : first(register_module(
            "first",
            nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)))),
        second(register_module("second",
                               nn::Conv2d(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)))),
        first_norm(register_module("first_norm", nn::BatchNorm2d(out))),
        second_norm(register_module("second_norm", nn::BatchNorm2d(out))) {
    if (in == out && stride == 1) return;
    project = register_module(
        "project",
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                       nn::BatchNorm2d(out)));
  }

  at::Tensor forward(const at::Tensor& x) {
    auto y = first_norm(first(x)).relu_();
    y = second_norm(second(y));
    y += project.is_empty() ? x : project->forward(x);
    return y.relu_();
  }

  nn::Conv2d first, second;
  nn::BatchNorm2d first_norm, second_norm;
  nn::Sequential project{nullptr};
};
TORCH_MODULE(BasicBlock);

Function resnet_18(Parts& parts) {
  auto stem = parts.part("stem", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1).bias(false)));
  auto norm = parts.part("norm", nn::BatchNorm2d(4));
  auto stages = parts.part("stages", nn::Sequential());
  int64_t width = 4;
  for (const int64_t out : {4, 6, 8, 8}) {
    stages->push_back(BasicBlock(width, out, out == 4 ? 1 : 2));
    stages->push_back(BasicBlock(out, out, 1));
    width = out;
  }
  auto head = parts.part("head", nn::Linear(width, 5));
  return [=](const List& in) mutable -> List {
    auto x = at::max_pool2d(norm(stem(in[0])).relu_(), 3, 2, 1);
    x = stages->forward(x);
    const auto logits = head(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
    return {F::cross_entropy(logits, in[1]), logits.detach()};
  };
}

TEST_P(Vision, ResNet18) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto fn = resnet_18(parts);
    auto module = parts.on(setting);
    return simple_learner(module, fn, sgd(*module), setting, images_and_classes);
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(Vision, ResNet18SwitchedToEvalAndBack) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto fn = resnet_18(parts);
    auto module = parts.on(setting);
    auto learner = simple_learner(module, fn, sgd(*module), setting, images_and_classes);
    learner.step = [module, inner = learner.step](const auto& functions, int i) {
      module->train(i % 3 != 1);
      return inner(functions, i);
    };
    return learner;
  };
  expect_learning_parity(make, GetParam(), {.steps = 6, .programs = {2}});
}

// Encoder, decoder by transposed convolution, skip connections by cat.
TEST_P(Vision, UNet) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    const auto conv = [&](const char* name, int64_t in, int64_t out) {
      return parts.part(name, nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)));
    };
    const auto up = [&](const char* name, int64_t in, int64_t out) {
      return parts.part(name,
                        nn::ConvTranspose2d(nn::ConvTranspose2dOptions(in, out, 2).stride(2)));
    };
    auto down1 = conv("down1", 2, 4), down2 = conv("down2", 4, 6), bottom = conv("bottom", 6, 8);
    auto up2 = up("up2", 8, 6), up1 = up("up1", 6, 4);
    auto join2 = conv("join2", 12, 6), join1 = conv("join1", 8, 4), out = conv("out", 4, 1);
    auto norm = parts.part("norm", nn::BatchNorm2d(8));
    Function fn = [=](const List& in) mutable -> List {
      const auto a = down1(in[0]).relu();
      const auto b = down2(at::max_pool2d(a, 2)).relu();
      const auto c = norm(bottom(at::avg_pool2d(b, 2))).relu();
      const auto d = join2(at::cat({up2(c), b}, 1)).relu_();
      const auto e = join1(at::cat({up1(d), a}, 1)).relu_();
      return {F::binary_cross_entropy_with_logits(out(e), in[1])};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adam(*module), setting, [](StepData data) -> List {
      return {data.normal({2, 2, 8, 8}), data.uniform({2, 1, 8, 8})};
    });
  };
  expect_learning_parity(make, GetParam());
}

TEST_P(Vision, ChannelsLast) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto first = parts.part("first", nn::Conv2d(nn::Conv2dOptions(3, 6, 3).padding(1)));
    auto norm = parts.part("norm", nn::BatchNorm2d(6));
    auto second = parts.part("second", nn::Conv2d(nn::Conv2dOptions(6, 6, 3).padding(1).groups(3)));
    auto head = parts.part("head", nn::Linear(6, 5));
    auto module = parts.on(setting);
    for (auto& p : module->parameters()) {
      if (p.dim() == 4) p.set_data(p.contiguous(at::MemoryFormat::ChannelsLast));
    }
    Function fn = [=](const List& in) mutable -> List {
      const auto x = second(norm(first(in[0])).relu());
      const auto pooled = at::avg_pool2d(x, 2);
      return {F::cross_entropy(head(pooled.mean({2, 3})), in[1]), pooled.detach()};
    };
    return simple_learner(module, fn, sgd(*module), setting, [](StepData data) -> List {
      auto in = images_and_classes(std::move(data));
      in[0] = in[0].contiguous(at::MemoryFormat::ChannelsLast);
      return in;
    });
  };
  expect_learning_parity(make, GetParam());
}

// The largest singular value of the weight by power iteration; its vectors are buffers that each
// training step improves in place.
TEST_P(Vision, SpectralNormalisation) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto weight = parts.parameter("weight", at::randn({5, 7}) / 3);
    auto u = parts.buffer("u", at::randn({5}));
    auto v = parts.buffer("v", at::randn({7}));
    Function fn = [=](const List& in) mutable -> List {
      {
        const at::NoGradGuard no_grad;
        for (int i = 0; i < 2; ++i) {
          v.copy_(at::mv(weight.t(), u));
          v.div_(v.norm() + 1e-6);
          u.copy_(at::mv(weight, v));
          u.div_(u.norm() + 1e-6);
        }
      }
      const auto sigma = at::dot(u.clone(), at::mv(weight, v.clone()));
      return {(in[0].matmul((weight / sigma).t()) - in[1]).pow(2).mean(), sigma.detach()};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, sgd(*module), setting, [](StepData data) -> List {
      return {data.normal({4, 7}), data.normal({4, 5})};
    });
  };
  expect_learning_parity(make, GetParam());
}

}  // namespace vision_test
}  // namespace antegrad::testing
