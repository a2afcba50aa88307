// Hooks on saved tensors: the forward saves tensors for the backward in fewer bits, or in other
// memory.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/models.h"

namespace {

double norm_of_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).square().sum().item<double>();
    size += a[i].square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

}  // namespace

int main() {
  torch::manual_seed(0);
  antegrad::examples::Gpt model(antegrad::examples::GptConfig{
      .vocabulary = 256, .layers = 4, .width = 128, .heads = 4, .context = 128});
  const auto tokens = at::randint(256, {8, 128});
  const auto targets = tokens.roll(-1, 1).contiguous();
  auto step = antegrad::compile(
      model.ptr(),
      [model](const at::Tensor& x, const at::Tensor& y) mutable { return model->loss(x, y); });
  const auto gradients = [&] {
    model->zero_grad();
    step(tokens, targets).backward();
    std::vector<at::Tensor> all;
    for (const auto& parameter : model->parameters()) all.push_back(parameter.grad().clone());
    return all;
  };
  const auto exact = gradients();
  const auto exact_bytes = step.report().programs.back().saved_bytes;
  fmt::print("{:<16} {:>8} {:>16}\n", "saved as", "MiB", "gradient error");
  fmt::print("{:<16} {:>8.2f} {:>16}\n", "they are", static_cast<double>(exact_bytes) / (1 << 20),
             "none");
  const auto show = [&](const std::vector<at::Tensor>& found) {
    const auto program = step.report().programs.back();
    fmt::print("{:<16} {:>8.2f} {:>16.5f}\n", program.hooks,
               static_cast<double>(program.saved_bytes) / (1 << 20),
               norm_of_difference(exact, found));
    return program.saved_bytes < exact_bytes;
  };

  bool smaller = true;
  {
    const antegrad::SavedTensorHooks scope(antegrad::compress::fp8_e4m3());
    auto loss = step(tokens, targets);
    loss.backward();
    smaller &= show(gradients());
  }
  for (const auto& hooks : {antegrad::compress::int8_rowwise(), antegrad::compress::bf16()}) {
    const antegrad::SavedTensorHooks scope(hooks);
    smaller &= show(gradients());
  }
  {
    const auto directory = std::filesystem::temp_directory_path().string();
    const antegrad::compress::HostOffload options{.min_bytes = 64 << 10, .directory = directory};
    const antegrad::SavedTensorHooks scope(antegrad::compress::offload_to_host(options));
    const auto found = gradients();
    smaller &= show(found) && norm_of_difference(exact, found) == 0;
  }
  const antegrad::Hooks halves(
      [](const at::Tensor& x) { return std::pair(x.to(at::kBFloat16), x.scalar_type()); },
      [](const std::pair<at::Tensor, at::ScalarType>& p) { return p.first.to(p.second); },
      antegrad::HookOptions{.name = "halves"});
  const antegrad::SavedTensorHooks scope(halves);
  smaller &= show(gradients());
  return smaller && step.report().eager_calls == 0 ? 0 : 1;
}
