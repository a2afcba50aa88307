// Activation checkpointing in eager code: the same gradients to the bit, in a fraction of the memory.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <iostream>
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

struct Step {
  std::vector<at::Tensor> gradients;
  double peak_mib;
};

Step run(std::vector<Block>& blocks, const at::Tensor& x, bool checkpoints) {
  torch::manual_seed(1);
  for (auto& block : blocks) block->zero_grad();
  const antegrad::MemoryMeter meter;
  at::Tensor y = x;
  for (auto& block : blocks) y = checkpoints ? antegrad::checkpoint(block, y) : block->forward(y);
  y.pow(2).mean().backward();
  Step step{{}, static_cast<double>(meter.peak_bytes()) / (1 << 20)};
  for (auto& block : blocks) {
    for (const auto& parameter : block->parameters()) step.gradients.push_back(parameter.grad());
  }
  return step;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  std::vector<Block> blocks;
  for (int i = 0; i < 8; ++i) blocks.emplace_back(128);
  const auto x = torch::randn({1024, 128});
  const auto plain = run(blocks, x, /*checkpoints=*/false);
  const auto checkpointed = run(blocks, x, /*checkpoints=*/true);
  for (size_t i = 0; i < plain.gradients.size(); ++i) {
    if (torch::equal(plain.gradients[i], checkpointed.gradients[i])) continue;
    std::cout << "gradient " << i << " differs\n";
    return 1;
  }
  std::cout << "peak of a step, MiB: " << plain.peak_mib << " plain, " << checkpointed.peak_mib
            << " with checkpoints; gradients equal to the bit\n";
}
