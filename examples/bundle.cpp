// A program that ships what it compiled. With a file that does not exist, it trains a step within a
// memory budget, with generated kernels, and writes its plan and kernels there. With one that does,
// it takes them from there: it needs neither a C compiler nor a directory for caches, and does not
// search. The gradients are the same, bit for bit.
//
//   bundle FILE

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace {

std::vector<at::Tensor> gradients_of(torch::nn::Sequential& model) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : model->parameters()) gradients.push_back(parameter.grad().clone());
  model->zero_grad();
  return gradients;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "step.bundle";
  const bool ship = !std::filesystem::exists(file);

  torch::manual_seed(0);
  torch::nn::Sequential model;
  for (int i = 0; i < 8; ++i) {
    model->push_back(torch::nn::Linear(128, 128));
    model->push_back(torch::nn::GELU());
    model->push_back(torch::nn::Dropout(0.1));
  }
  const auto x = torch::randn({2048, 128});
  const auto loss = [&](const at::Tensor& in) { return model->forward(in).square().mean(); };

  torch::manual_seed(1);
  loss(x).backward();
  const auto expected = gradients_of(model);

  const auto start = std::chrono::steady_clock::now();
  if (!ship) antegrad::load_bundle(file);
  auto step = antegrad::compile(
      model, loss,
      antegrad::Options().with_memory_share(0.2).with_lowering(antegrad::Lowering::exact));
  torch::manual_seed(1);
  step(x).backward();
  const std::chrono::duration<double, std::milli> first = std::chrono::steady_clock::now() - start;
  const auto found = gradients_of(model);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!torch::equal(expected[i], found[i])) return 1;
  }

  const auto program = step.report().programs.at(0);
  std::cout << "first step in " << static_cast<int>(first.count()) << " ms, "
            << program.generated_kernels.size() << " kernels, peak "
            << program.predicted_peak_bytes / 1024 << " KiB; plan: " << program.plan_cache << " "
            << program.plan_cache_reason << "\n";
  if (!ship) return program.plan_cache == "hit" ? 0 : 1;
  antegrad::save_bundle(file);
  std::cout << "wrote " << file << "; run this again\n";
  return 0;
}
