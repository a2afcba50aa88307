// A training loop in which each batch has another size. Each size gets a program; losses and
// gradients are those of eager code, bit for bit. A value that decides something and differs in
// each call gets none after a while.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <iostream>
#include <utility>
#include <vector>

namespace {

// A loss of a batch of sequences, [rows, length, 16].
struct ModelImpl : torch::nn::Module {
  ModelImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(std::vector<int64_t>{16}))),
        mix(register_module("mix", torch::nn::Linear(16, 16))) {}
  at::Tensor forward(const at::Tensor& x) {
    return (torch::gelu(mix(norm(x))).cumsum(1) - x).pow(2).mean();
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear mix;
};
TORCH_MODULE(Model);

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return false;
  }
  return a.size() == b.size();
}

}  // namespace

int main() {
  torch::manual_seed(0);
  Model model;
  auto loss = antegrad::compile(
      model.ptr(), [&](const at::Tensor& x) { return model(x); },
      antegrad::Options().with_max_programs(100));
  bool equal = true;
  const auto gradients = [&](const at::Tensor& result) {
    return torch::autograd::grad({result}, model->parameters());
  };
  for (int64_t step = 0; step < 400; ++step) {
    const auto x = torch::randn({1 + step % 8, 1 + step % 25, 16});
    const auto expected = model(x), found = loss(x);
    equal = equal && found.equal(expected) && same(gradients(found), gradients(expected));
  }
  auto report = loss.report();
  std::cout << "200 sizes, 400 steps: " << report.compiled_calls << " compiled, "
            << report.eager_calls << " eager; " << report.programs.size() << " programs kept, "
            << report.evictions << " given up; " << (equal ? "equal to the bit" : "DIFFERENT")
            << '\n';
  if (!equal || report.eager_calls > 0) return 1;

  auto power =
      antegrad::compile([](const at::Tensor& x, double exponent) { return x.pow(exponent); });
  const auto x = torch::rand({8});
  for (int step = 0; step < 100; ++step) {
    const double exponent = 1.5 + step;  // a constant of the program
    equal = equal && power(x, exponent).equal(x.pow(exponent));
  }
  report = power.report();
  std::cout << "100 exponents: " << report.compiled_calls << " compiled, " << report.eager_calls
            << " eager; " << (equal ? "equal to the bit" : "DIFFERENT") << '\n';
  return equal && report.eager_calls > 0 ? 0 : 1;
}
