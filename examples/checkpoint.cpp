// Activation checkpointing: the same gradients, bit for bit, with a fraction of the memory. Shown
// in eager code and in a compiled callable with a policy that decides operator by operator what is
// saved.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <functional>
#include <iostream>
#include <string_view>
#include <vector>

namespace {

// A residual block with dropout; its parameters live in the module.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t size)
      : norm(register_module("norm", torch::nn::LayerNorm(std::vector<int64_t>{size}))),
        up(register_module("up", torch::nn::Linear(size, 4 * size))),
        down(register_module("down", torch::nn::Linear(4 * size, size))) {}
  at::Tensor forward(const at::Tensor& x) {
    return x + torch::dropout(down(torch::gelu(up(norm(x)))), 0.1, is_training());
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

using Blocks = std::vector<Block>;
using Loss = std::function<at::Tensor(const at::Tensor& x)>;

Loss loss_of(Blocks& blocks, bool checkpoints) {
  return [&blocks, checkpoints](const at::Tensor& x) {
    at::Tensor y = x;
    for (auto& block : blocks) y = checkpoints ? antegrad::checkpoint(block, y) : block->forward(y);
    return y.pow(2).mean();
  };
}

Loss loss_with_policy(Blocks& blocks) {
  antegrad::CheckpointOptions options;
  options.policy = [](std::string_view op) {
    return op == "aten::addmm.default" ? antegrad::Recompute::must_save
                                       : antegrad::Recompute::must_recompute;
  };
  return [&blocks, options](const at::Tensor& x) {
    at::Tensor y = x;
    for (auto& block : blocks) y = antegrad::checkpoint(options, block, y);
    return y.pow(2).mean();
  };
}

struct Step {
  std::vector<at::Tensor> gradients;
  double peak_mib;
};

Step run(Blocks& blocks, const Loss& loss, const at::Tensor& x) {
  torch::manual_seed(1);
  for (auto& block : blocks) block->zero_grad();
  const antegrad::MemoryMeter meter;
  loss(x).backward();
  Step step{{}, static_cast<double>(meter.peak_bytes()) / (1 << 20)};
  for (auto& block : blocks) {
    for (const auto& parameter : block->parameters()) step.gradients.push_back(parameter.grad());
  }
  return step;
}

// Measures the second step of a compiled loss, since the first one captures.
Step run_compiled(Blocks& blocks, const Loss& loss, const at::Tensor& x) {
  const Loss compiled =
      antegrad::compile(loss, antegrad::Options().with_audit(antegrad::Audit::off));
  run(blocks, compiled, x);
  return run(blocks, compiled, x);
}

}  // namespace

int main() {
  torch::manual_seed(0);
  Blocks blocks;
  for (int i = 0; i < 8; ++i) blocks.emplace_back(128);
  const auto x = torch::randn({1024, 128});
  const auto plain_loss = loss_of(blocks, false), checkpointed_loss = loss_of(blocks, true);
  const auto plain = run(blocks, plain_loss, x);
  const std::vector<std::pair<const char*, Step>> steps = {
      {"plain", plain},
      {"with checkpoints", run(blocks, checkpointed_loss, x)},
      {"compiled", run_compiled(blocks, plain_loss, x)},
      {"compiled, with checkpoints", run_compiled(blocks, checkpointed_loss, x)},
      {"compiled, with checkpoints that keep matrix products",
       run_compiled(blocks, loss_with_policy(blocks), x)},
  };
  std::cout << "Peak of a step; gradients are equal bit for bit:\n";
  for (const auto& [name, step] : steps) {
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      if (torch::equal(plain.gradients[i], step.gradients[i])) continue;
      std::cout << "gradient " << i << " differs, " << name << "\n";
      return 1;
    }
    std::cout << "  " << step.peak_mib << " MiB " << name << "\n";
  }
}
