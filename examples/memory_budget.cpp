// A training step within a memory budget. The planner chooses what the backward recomputes, and the
// gradients stay the same, bit for bit. If no plan meets a budget, the error names the smallest one
// that works. If gradients may differ slightly, tensors can also be saved in fewer bits, which
// costs less time.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <vector>

using namespace antegrad::literals;

namespace {

using Loss = std::function<at::Tensor(const at::Tensor& x)>;

struct Step {
  std::vector<at::Tensor> gradients;
  int64_t peak_bytes;
};

Step run(torch::nn::Sequential& model, const Loss& loss, const at::Tensor& x) {
  torch::manual_seed(1);  // the same dropout masks, also in recomputation
  model->zero_grad();
  const antegrad::MemoryMeter meter;
  loss(x).backward();
  Step step{{}, meter.peak_bytes()};
  for (const auto& parameter : model->parameters()) step.gradients.push_back(parameter.grad());
  return step;
}

int64_t percent(double share) { return std::llround(100 * share); }

bool is_within(const Step& eager, const Step& step, int64_t budget) {
  std::cout << "peak " << step.peak_bytes / 1_KiB << " KiB, eager " << eager.peak_bytes / 1_KiB
            << " KiB\n\n";
  return static_cast<double>(step.peak_bytes) <= 1.02 * static_cast<double>(budget);
}

// Whether the gradients equal eager's and the peak is within the budget.
bool holds(const Step& eager, const Step& step, int64_t budget) {
  for (size_t i = 0; i < eager.gradients.size(); ++i) {
    if (!torch::equal(eager.gradients[i], step.gradients[i])) return false;
  }
  return is_within(eager, step, budget);
}

}  // namespace

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model;
  for (int i = 0; i < 8; ++i) {
    model->push_back(torch::nn::Linear(128, 128));
    model->push_back(torch::nn::GELU());
    model->push_back(torch::nn::Dropout(0.1));
  }
  const auto x = torch::randn({2048, 128});
  const Loss loss = [&](const at::Tensor& in) { return model->forward(in).square().mean(); };
  const auto eager = run(model, loss, x);

  auto step = antegrad::compile(model, loss, antegrad::Options().with_memory_budget(16_MiB));
  run(model, step, x);  // captures
  const auto in_budget = run(model, step, x);
  std::cout << step.report();
  if (!holds(eager, in_budget, 16_MiB)) return 1;

  int64_t smallest = 0;
  try {
    antegrad::compile(model, loss, antegrad::Options().with_memory_budget(1_MiB)).warmup(x);
  } catch (const antegrad::BudgetError& error) {
    std::cout << error.what() << "\n\n";
    smallest = error.smallest_bytes();
  }
  if (smallest == 0) return 1;

  auto tight = antegrad::compile(model, loss, antegrad::Options().with_memory_budget(smallest));
  run(model, tight, x);
  const auto in_smallest = run(model, tight, x);
  if (!holds(eager, in_smallest, smallest)) return 1;

  auto packed =
      antegrad::compile(model, loss,
                        antegrad::Options().with_memory_budget(smallest).with_budget_compressors(
                            {antegrad::Compressor::bf16, antegrad::Compressor::int8_rowwise}));
  run(model, packed, x);
  const auto in_packed = run(model, packed, x);
  const auto recomputed = tight.report().programs[0].recompute_share;
  const auto program = packed.report().programs[0];
  std::cout << "with " << program.hooks << " on " << program.hooked.size()
            << " tensors: " << percent(program.recompute_share) << " % of the step more instead of "
            << percent(recomputed) << " %\n";
  if (program.hooked.empty() || program.recompute_share >= recomputed) return 1;
  return is_within(eager, in_packed, smallest) ? 0 : 1;
}
