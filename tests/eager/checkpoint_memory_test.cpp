// Memory of checkpointed blocks, as MemoryMeter sees it.

#include <antegrad/memory.h>

#include "eager/runner.h"

namespace antegrad::testing {
namespace checkpoint_memory_test {

constexpr int64_t kRows = 512, kSize = 128, kWide = 1024;
constexpr int kBlocks = 8;
constexpr int64_t kActivation = kRows * kSize * static_cast<int64_t>(sizeof(float));
constexpr int64_t kInner = kRows * kWide * static_cast<int64_t>(sizeof(float));

struct Block {
  at::Tensor up = leaf({kSize, kWide}), down = leaf({kWide, kSize});
  at::Tensor operator()(const at::Tensor& x) const {
    return x + at::gelu(x.matmul(up)).sin().matmul(down);
  }
};

// Reentrant checkpointing written by hand: the gradients of the block are accumulated inside.
struct ByHand : torch::autograd::Function<ByHand> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::shared_ptr<Block>& block) {
    context->save_for_backward({x});
    context->saved_data["block"] = reinterpret_cast<int64_t>(block.get());
    return (*block)(x);
  }
  static List backward(torch::autograd::AutogradContext* context, List tangents) {
    const auto& block = *reinterpret_cast<Block*>(context->saved_data["block"].toInt());
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    at::Tensor y;
    {
      const at::AutoGradMode grad_mode(true);
      y = block(x);
    }
    y.backward(tangents[0]);
    return {x.grad(), at::Tensor()};
  }
};

// Peak of forward and backward for a way of calling blocks. `accumulates`: gradients exist before.
template <class Call>
int64_t peak_of(bool accumulates, const Call& call) {
  std::vector<std::shared_ptr<Block>> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(std::make_shared<Block>());
  const auto x = leaf({kRows, kSize});
  if (accumulates) {
    x.mutable_grad() = at::zeros_like(x);
    for (const auto& block : blocks) {
      block->up.mutable_grad() = at::zeros_like(block->up);
      block->down.mutable_grad() = at::zeros_like(block->down);
    }
  }
  MemoryMeter meter;
  at::Tensor loss;
  {
    auto y = x * 1;
    for (const auto& block : blocks) y = call(block, y);
    loss = y.sum();
  }
  loss.backward();
  return meter.peak_bytes();
}

struct Peaks {
  int64_t eager, by_hand, ours;
};
Peaks peaks(bool accumulates) {
  using Pointer = std::shared_ptr<Block>;
  return {
      peak_of(accumulates, [](const Pointer& block, const at::Tensor& x) { return (*block)(x); }),
      peak_of(accumulates,
              [](const Pointer& block, const at::Tensor& x) { return ByHand::apply(x, block); }),
      peak_of(accumulates, [](const Pointer& block, const at::Tensor& x) {
        return checkpoint([block](const at::Tensor& x) { return (*block)(x); }, x);
      })};
}

constexpr int64_t kGradients = 2 * kSize * kWide * static_cast<int64_t>(sizeof(float));

TEST(CheckpointMemory, PeakOfEightBlocksIsAtMostThatOfCheckpointsByHand) {
  const auto [eager, by_hand, ours] = peaks(/*accumulates=*/false);
  EXPECT_LE(ours, by_hand) << "eager " << eager;
  EXPECT_LT(ours, eager / 3) << "by hand " << by_hand;
}

TEST(CheckpointMemory, GradientsToAccumulateAreAliveForOneBlockAtATime) {
  const auto [eager, by_hand, ours] = peaks(/*accumulates=*/true);
  EXPECT_LE(ours, by_hand + kGradients) << "eager " << eager;
  EXPECT_LT(ours, eager / 3) << "by hand " << by_hand;
}

TEST(CheckpointMemory, AnArgumentDiesWhenItHasBeenUsedAgain) {
  const auto x = leaf({kRows, kSize});
  const MemoryMeter meter;
  at::Tensor loss;
  {
    const auto h = x * 3;
    loss = checkpoint([](const at::Tensor& h) { return (h * 2).sin(); }, h).sum();
  }
  loss.backward();
  // While sin is differentiated: its input, its cosine, and their product.
  EXPECT_LT(meter.peak_bytes(), 3 * kActivation + kActivation / 2);
}

TEST(CheckpointMemory, NothingIsLeftAfterTheBackwardPass) {
  const auto block = std::make_shared<Block>();
  const auto x = leaf({kRows, kSize});
  at::Tensor y;
  block->up.mutable_grad() = at::zeros_like(block->up);
  block->down.mutable_grad() = at::zeros_like(block->down);
  x.mutable_grad() = at::zeros_like(x);
  const MemoryMeter meter;
  y = checkpoint([block](const at::Tensor& x) { return (*block)(x * 2); }, x * 3);
  EXPECT_LT(meter.live_bytes(), 3 * kActivation);
  y.sum().backward();
  // The result is live, and so is its node, but not what the node held.
  EXPECT_EQ(meter.live_bytes(), kActivation);
  EXPECT_EQ(block.use_count(), 1);
}

}  // namespace checkpoint_memory_test
}  // namespace antegrad::testing
