#include "common/lowering_times.h"

#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <vector>

#include "common/child.h"
#include "common/empty_cache.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "common/measure.h"

namespace antegrad::bench {

void run_lowering_child(int threads) {
  at::set_num_threads(threads);
  torch::manual_seed(0);
  examples::Gpt model(gpt12());
  auto loss = compile(
      model, [&](at::Tensor x, at::Tensor y) { return model->loss(x, y); },
      Options().with_lowering(Lowering::exact));
  const auto compile_ms = [&](int64_t batch) {
    const auto tokens = random_tokens(gpt12(), batch);
    loss.warmup(tokens.inputs, tokens.targets);
    return loss.report().programs.back().compile_ms;
  };
  const auto first = compile_ms(kBatch);
  const auto files = compiled_files();
  const auto other = compile_ms(kBatch + 1);
  const nlohmann::json found{
      {"first_ms", first}, {"new_size_ms", other}, {"new_size_files", compiled_files() - files}};
  fmt::print("{}\n", found.dump());
}

LoweringTimes lowering_times(int rounds) {
  const std::vector<std::string> arguments{kLoweringChild, std::to_string(at::get_num_threads())};
  std::vector<double> cold, new_size, warm;
  LoweringTimes times;
  for (int round = 0; round < rounds; ++round) {
    note(fmt::format("gpt12: compiled in fresh processes, {} of {}", round + 1, rounds));
    const EmptyCache cache;
    const auto first = run_self(arguments), second = run_self(arguments);
    cold.push_back(first.at("first_ms").get<double>());
    new_size.push_back(first.at("new_size_ms").get<double>());
    warm.push_back(second.at("first_ms").get<double>());
    times.new_size_files += first.at("new_size_files").get<int64_t>();
  }
  times.cold_ms = examples::median(cold);
  times.new_size_ms = examples::median(new_size);
  times.warm_ms = examples::median(warm);
  return times;
}

}  // namespace antegrad::bench
