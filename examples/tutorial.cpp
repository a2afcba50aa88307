// The program of docs/tutorial.md: one model, from compile() to a memory budget to a graph for
// `antegrad explain`. Usage: tutorial [FILE]. Writes the graph to FILE, or to a temporary file that
// it removes.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

using namespace antegrad::literals;

namespace {

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({128})));
    up = register_module("up", torch::nn::Linear(128, 512));
    down = register_module("down", torch::nn::Linear(512, 128));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto hidden = torch::gelu(up->forward(norm->forward(x)));
    return x + torch::dropout(down->forward(hidden), 0.1, is_training());
  }
  torch::nn::LayerNorm norm = nullptr;
  torch::nn::Linear up = nullptr, down = nullptr;
};
TORCH_MODULE(Block);

torch::nn::Sequential make_model() {
  torch::nn::Sequential model;
  for (int i = 0; i < 6; ++i) model->push_back(Block());
  model->push_back(torch::nn::Linear(128, 10));
  return model;
}

std::vector<at::Tensor> gradients(const torch::nn::Sequential& model) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : model->parameters()) all.push_back(parameter.grad());
  return all;
}

bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(0);
  auto model = make_model();
  const auto x = torch::randn({1024, 128});
  const auto y = torch::randint(10, {1024});

  const auto loss_of = [&](const at::Tensor& in, const at::Tensor& target) {
    return torch::nn::functional::cross_entropy(model->forward(in), target);
  };

  // Runs one step: returns its peak of memory and leaves the gradients in the parameters.
  const auto run = [&](auto& step) {
    torch::manual_seed(1);  // the same dropout masks in each run
    model->zero_grad();
    const antegrad::MemoryMeter meter;
    step(x, y).backward();
    return meter.peak_bytes();
  };

  const auto eager_peak = run(loss_of);
  const auto eager_gradients = gradients(model);

  auto step = antegrad::compile(model, loss_of);
  run(step);  // captures and compiles
  const auto compiled_peak = run(step);

  std::cout << "eager:    " << eager_peak / 1_KiB << " KiB\n";
  std::cout << "compiled: " << compiled_peak / 1_KiB << " KiB\n";
  if (!same_bits(eager_gradients, gradients(model))) return 1;

  std::cout << step.report() << "\n";

  auto small = antegrad::compile(model, loss_of, antegrad::Options().with_memory_budget(16_MiB));
  run(small);
  std::cout << "budget:   " << run(small) / 1_KiB << " KiB\n";
  if (!same_bits(eager_gradients, gradients(model))) return 1;

  std::cout << small.report() << "\n";

  auto too_small = antegrad::compile(model, loss_of, antegrad::Options().with_memory_budget(1_MiB));
  try {
    too_small.warmup(x, y);
    return 1;
  } catch (const antegrad::BudgetError& error) {
    std::cout << error.what() << "\n";
  }

  const auto file =
      argc > 1 ? std::string(argv[1])
               : (std::filesystem::temp_directory_path() / "antegrad_tutorial.agraph").string();
  small.save_graph(file);
  if (argc < 2) std::filesystem::remove(file);
}
