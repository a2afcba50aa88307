// A critic with a gradient penalty (Gulrajani et al., Improved Training of Wasserstein GANs, 2017).
// The loss contains the gradient of the critic by its input, taken outside of the compiled model
// with create_graph. It trains beside an eager critic, to the same bits.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <iostream>

namespace {

struct CriticImpl : torch::nn::Module {
  CriticImpl()
      : first(register_module("first", torch::nn::Linear(32, 256))),
        second(register_module("second", torch::nn::Linear(256, 256))),
        third(register_module("third", torch::nn::Linear(256, 1))) {}
  at::Tensor forward(const at::Tensor& x) {
    return third(torch::silu(second(torch::silu(first(x)))));
  }
  torch::nn::Linear first, second, third;
};
TORCH_MODULE(Critic);

// Five steps; the last loss.
template <class Call>
at::Tensor train(Critic& critic, const Call& call) {
  torch::manual_seed(1);
  torch::optim::Adam optimizer(critic->parameters(), 1e-3);
  at::Tensor loss;
  for (int step = 0; step < 5; ++step) {
    const auto real = torch::randn({256, 32}), fake = torch::rand({256, 32});
    const auto share = torch::rand({256, 1});
    const auto between = (share * real + (1 - share) * fake).requires_grad_();
    const auto score = call(between);
    const auto slope = torch::autograd::grad({score}, {between}, {torch::ones_like(score)},
                                             /*retain_graph=*/true, /*create_graph=*/true)[0];
    loss = call(fake).mean() - call(real).mean() + 10 * (slope.norm(2, 1) - 1).pow(2).mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  return loss;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  Critic eager, compiled;
  for (size_t i = 0; i < eager->parameters().size(); ++i) {
    const torch::NoGradGuard no_grad;
    compiled->parameters()[i].copy_(eager->parameters()[i]);
  }
  auto call = antegrad::compile(compiled, antegrad::Options().with_higher_derivatives(true));

  const auto expected = train(eager, [&](const at::Tensor& x) { return eager->forward(x); });
  const auto found = train(compiled, [&](const at::Tensor& x) { return call(x); });
  std::cout << "loss after five steps: eager " << expected.item<float>() << ", compiled "
            << found.item<float>() << "\n\n"
            << call.report();
  for (size_t i = 0; i < eager->parameters().size(); ++i) {
    if (!torch::equal(eager->parameters()[i], compiled->parameters()[i])) return 1;
  }
}
