// Threads: several train one model through one compiled callable while another one evaluates. Then
// a kernel fails.

#include <antegrad/antegrad.h>
#include <torch/torch.h>

#include <atomic>
#include <iostream>
#include <string_view>
#include <thread>
#include <vector>

int main() {
  torch::manual_seed(0);
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(32, 8));
  torch::nn::Linear head(8, 1);
  const auto loss = [&](const at::Tensor& words, const at::Tensor& target) {
    return (head->forward(table->forward(words)) - target).pow(2).mean();
  };
  auto step = antegrad::compile(loss);

  // Each thread uses its own shape, so all compile at the same time. The gradients of all threads
  // add up.
  constexpr int kThreads = 4;
  std::atomic<int> left = kThreads;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto words = torch::arange(8 * (t + 1)) % 32;
      for (int i = 0; i < 10; ++i) step(words, torch::ones({1})).backward();
      --left;
    });
  }
  // Grad mode is per thread: this thread evaluates with a program without backward.
  threads.emplace_back([&] {
    const torch::NoGradGuard no_grad;
    do {
      step(torch::arange(4), torch::ones({1}));
    } while (left > 0);
  });
  for (auto& thread : threads) thread.join();

  const auto found = head->weight.grad().clone();
  head->zero_grad();
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < 10; ++i) {
      loss(torch::arange(8 * (t + 1)) % 32, torch::ones({1})).backward();
    }
  }
  const auto report = step.report();
  std::cout << report.programs.size() << " programs, " << report.compiled_calls
            << " calls on five threads; gradients equal eager's but for the order in which they "
               "were added: "
            << std::boolalpha << torch::allclose(found, head->weight.grad()) << "\n";

  // An invalid index, which depends on data: the error names the operator and the line of the call.
  try {
    step(torch::full({8}, 99, torch::kLong), torch::ones({1}));
  } catch (const c10::Error& error) {
    std::cout << error.what_without_backtrace() << "\n";
    const bool named = std::string_view(error.what()).find("embedding") != std::string_view::npos;
    return named && torch::allclose(found, head->weight.grad()) ? 0 : 1;
  }
  return 1;
}
