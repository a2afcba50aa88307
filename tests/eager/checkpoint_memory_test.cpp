// Memory of checkpointed blocks, as MemoryMeter sees it.

#include <antegrad/memory.h>

#include "eager/runner.h"

namespace antegrad::testing {
namespace {

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

// Reentrant checkpointing as one writes it by hand: the block's gradients are accumulated inside.
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

// Peak of forward and backward, by how a block is called.
template <class Call>
int64_t peak_of(const Call& call) {
  std::vector<std::shared_ptr<Block>> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(std::make_shared<Block>());
  for (const auto& block : blocks) {
    block->up.mutable_grad() = at::zeros_like(block->up);
    block->down.mutable_grad() = at::zeros_like(block->down);
  }
  const auto x = leaf({kRows, kSize});
  x.mutable_grad() = at::zeros_like(x);
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

TEST(CheckpointMemory, PeakOfEightBlocks) {
  using Pointer = std::shared_ptr<Block>;
  const auto eager = peak_of([](const Pointer& block, const at::Tensor& x) { return (*block)(x); });
  const auto by_hand =
      peak_of([](const Pointer& block, const at::Tensor& x) { return ByHand::apply(x, block); });
  const auto ours = peak_of([](const Pointer& block, const at::Tensor& x) {
    return checkpoint([block](const at::Tensor& x) { return (*block)(x); }, x);
  });
  RecordProperty("eager", std::to_string(eager));
  RecordProperty("by_hand", std::to_string(by_hand));
  RecordProperty("ours", std::to_string(ours));
  // Gradients of one block are alive until they are handed out: two matrices.
  const int64_t gradients = 2 * kSize * kWide * static_cast<int64_t>(sizeof(float));
  EXPECT_LE(ours, by_hand + gradients) << "eager " << eager;
  EXPECT_LT(ours, eager / 3) << "by hand " << by_hand;
  EXPECT_LT(ours, (kBlocks + 4) * kActivation + 6 * kInner + gradients);
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
  // The result is alive, and with it the node; what the node held is not.
  EXPECT_EQ(meter.live_bytes(), kActivation);
  EXPECT_EQ(block.use_count(), 1);
}

}  // namespace
}  // namespace antegrad::testing
