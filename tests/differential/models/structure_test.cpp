// Models with an unusual inside: generative, routed, on graphs, in the frequency domain.

#include <ATen/ATen.h>
#include <torch/enum.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include "parts.h"

namespace antegrad::testing {
namespace structure_test {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

AG_MODEL_SUITE(Structure);

TEST_P(Structure, VariationalAutoencoder) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto encode = parts.part("encode", nn::Linear(6, 8));
    auto mean = parts.part("mean", nn::Linear(8, 3)),
         spread = parts.part("spread", nn::Linear(8, 3));
    auto decode = parts.part("decode", nn::Linear(3, 6));
    Function fn = [=](const List& in) mutable -> List {
      const auto h = at::relu(encode(in[0]));
      const auto mu = mean(h), log_variance = spread(h);
      const auto z = mu + at::exp(0.5 * log_variance) * at::randn_like(mu);
      const auto fit = F::binary_cross_entropy_with_logits(
          decode(z), in[0], F::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum));
      const auto kl = -0.5 * (1 + log_variance - mu.pow(2) - log_variance.exp()).sum();
      return {fit + kl, z.detach()};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adam(*module), setting, [](StepData data) -> List {
      return {data.uniform({4, 6})};
    });
  };
  expect_learning_parity(make, GetParam());
}

struct Gan {
  Parts parts;
  nn::Linear generator_in, generator_out, critic_in, critic_out;

  Gan()
      : generator_in(parts.part("generator_in", nn::Linear(3, 8))),
        generator_out(parts.part("generator_out", nn::Linear(8, 4))),
        critic_in(parts.part("critic_in", nn::Linear(4, 8))),
        critic_out(parts.part("critic_out", nn::Linear(8, 1))) {}

  at::Tensor generate(const at::Tensor& noise) {
    return at::tanh(generator_out(at::leaky_relu(generator_in(noise), 0.2)));
  }
  at::Tensor criticise(const at::Tensor& x) {
    return critic_out(at::dropout(at::leaky_relu(critic_in(x), 0.2), 0.3, true));
  }
  std::shared_ptr<torch::optim::Optimizer> optimizer(nn::Linear a, nn::Linear b) const {
    auto all = a->parameters();
    for (const auto& p : b->parameters()) all.push_back(p);
    return std::make_shared<torch::optim::Adam>(all, torch::optim::AdamOptions(1e-2));
  }
};

at::Tensor real_or_fake(const at::Tensor& logits, double target) {
  return F::binary_cross_entropy_with_logits(logits, at::full_like(logits, target));
}

// One compiled callable a player: each holds both networks, and one of them does not learn from it.
TEST_P(Structure, GanByALossForEachPlayer) {
  const auto make = [](const Setting& setting) {
    Gan gan;
    Function critic_loss = [=](const List& in) mutable -> List {
      const auto fake = gan.generate(in[1]).detach();
      return {real_or_fake(gan.criticise(in[0]), 0.9) + real_or_fake(gan.criticise(fake), 0)};
    };
    Function generator_loss = [=](const List& in) mutable -> List {
      return {real_or_fake(gan.criticise(gan.generate(in[0])), 1)};
    };
    auto module = gan.parts.on(setting);
    Learner learner{module,
                    {critic_loss, generator_loss},
                    {gan.optimizer(gan.critic_in, gan.critic_out),
                     gan.optimizer(gan.generator_in, gan.generator_out)},
                    {}};
    learner.step = [=, optimizers = learner.optimizers](const auto& functions, int i) {
      StepData data(setting, i);
      List losses;
      module->zero_grad();
      losses.push_back(functions[0]({data.normal({4, 4}), data.normal({4, 3})})[0]);
      losses[0].backward();
      optimizers[0]->step();
      module->zero_grad();
      losses.push_back(functions[1]({data.normal({4, 3})})[0]);
      losses[1].backward();
      optimizers[1]->step();
      return losses;
    };
    return learner;
  };
  expect_learning_parity(make, GetParam());
}

// One compiled callable a network: gradients flow from the second through the first, and the same
// output of the first is used detached before that.
TEST_P(Structure, GanByACallableForEachNetwork) {
  const auto make = [](const Setting& setting) {
    Gan gan;
    Function generate = [=](const List& in) mutable -> List { return {gan.generate(in[0])}; };
    Function criticise = [=](const List& in) mutable -> List { return {gan.criticise(in[0])}; };
    auto module = gan.parts.on(setting);
    Learner learner{module,
                    {generate, criticise},
                    {gan.optimizer(gan.critic_in, gan.critic_out),
                     gan.optimizer(gan.generator_in, gan.generator_out)},
                    {}};
    learner.step = [=, optimizers = learner.optimizers](const auto& functions, int i) {
      StepData data(setting, i);
      module->zero_grad();
      const auto fake = functions[0]({data.normal({4, 3})})[0];
      auto critic = real_or_fake(functions[1]({data.normal({4, 4})})[0], 1) +
                    real_or_fake(functions[1]({fake.detach()})[0], 0);
      critic.backward();
      optimizers[0]->step();
      module->zero_grad();
      auto generator = real_or_fake(functions[1]({fake})[0], 1);
      generator.backward();
      optimizers[1]->step();
      return List{fake, critic, generator};
    };
    return learner;
  };
  // The critic is captured twice: for a batch that requires grad and for one that does not.
  expect_learning_parity(make, GetParam(), {.steps = 5, .programs = {1, 2}});
}

// Two of four experts for each token; all run, and the weights of the others are zero.
TEST_P(Structure, MixtureOfExperts) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto gate = parts.part("gate", nn::Linear(5, 4));
    auto experts = parts.part("experts", nn::ModuleList());
    for (int i = 0; i < 4; ++i) experts->push_back(nn::Linear(5, 5));
    Function fn = [=](const List& in) mutable -> List {
      const auto scores = gate(in[0]).softmax(-1);
      const auto [best, which] = scores.topk(2, -1);
      const auto weights = at::zeros_like(scores).scatter(-1, which, best / best.sum(-1, true));
      List outs;
      for (int i = 0; i < 4; ++i) {
        outs.push_back(experts->at<nn::LinearImpl>(static_cast<size_t>(i)).forward(in[0]).relu());
      }
      const auto y = at::einsum("te,etd->td", {weights, at::stack(outs)});
      const auto load = (weights.gt(0).to(y.scalar_type()).mean(0) * scores.mean(0)).sum() * 4;
      return {F::mse_loss(y, in[1]) + 0.01 * load, which};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adam(*module), setting, [](StepData data) -> List {
      return {data.normal({6, 5}), data.normal({6, 5})};
    });
  };
  expect_learning_parity(make, GetParam());
}

// Two rounds of message passing along given edges, then a sum over each graph.
TEST_P(Structure, GraphNetworkByIndexAdd) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto message = parts.part("message", nn::Linear(4, 4)),
         update = parts.part("update", nn::Linear(8, 4));
    auto head = parts.part("head", nn::Linear(4, 1));
    Function fn = [=](const List& in) mutable -> List {
      auto h = in[0];
      for (int round = 0; round < 2; ++round) {
        const auto sent = at::relu(message(h.index_select(0, in[1])));
        const auto inbox = at::zeros_like(h).index_add(0, in[2], sent);
        h = at::tanh(update(at::cat({h, inbox}, 1)));
      }
      auto pooled = at::zeros({2, 4}, h.options());
      pooled.index_add_(0, in[3], h);
      return {F::mse_loss(head(pooled).squeeze(1), in[4])};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adam(*module), setting, [](StepData data) -> List {
      return {data.normal({7, 4}), data.integers(7, {12}), data.integers(7, {12}),
              data.integers(2, {7}), data.normal({2})};
    });
  };
  expect_learning_parity(make, GetParam());
}

// A learned filter on the complex spectrum of a signal.
TEST_P(Structure, FourierLayer) {
  const auto make = [](const Setting& setting) {
    Parts parts;
    auto filter = parts.parameter("filter", at::randn({3, 5, 2}));
    auto scale = parts.part("scale", nn::Linear(8, 8));
    Function fn = [=](const List& in) mutable -> List {
      const auto spectrum = at::fft_rfft(in[0]);
      const auto filtered = spectrum * at::view_as_complex(filter);
      const auto signal = at::fft_irfft(filtered, 8) + scale(in[0]);
      return {F::mse_loss(signal, in[1]) + 0.1 * filtered.abs().mean() +
              filtered.angle().mean() * 0.01};
    };
    auto module = parts.on(setting);
    return simple_learner(module, fn, adam(*module), setting, [](StepData data) -> List {
      return {data.normal({2, 3, 8}), data.normal({2, 3, 8})};
    });
  };
  expect_learning_parity(make, GetParam());
}

}  // namespace structure_test
}  // namespace antegrad::testing
