// Two processes that train one GPT: sharded, beside C++ that averages gradients by hand and
// PyTorch's FSDP2, eager and compiled. And small layers, each gathered by itself, or all at once.
//
// Each of them runs in processes of its own, for some steps, in turns with the others; medians are
// over all turns. A step is zero_grad, forward, backward and AdamW, between barriers, with one
// thread for each rank. Its peak is that of the CPU's allocator above what lives before it,
// gradients undefined, and parameters and optimizer state besides, of one rank.

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/child.h"
#include "common/harness.h"
#include "common/processes.h"
#include "common/sharded_gpt.h"
#include "distributed/collectives.h"

namespace antegrad::bench {
namespace {

using Json = nlohmann::json;
using List = std::vector<at::Tensor>;

constexpr int kWarmUp = 4;

// --- one rank ------------------------------------------------------------------------------------

/// What a rank trains, in one of the ways that are compared.
struct Subject {
  std::function<void()> step;
  std::function<void()> clear;  // gradients
  int64_t kept_bytes = 0;       // parameters and optimizer state
  ProcessGroup group;
};

int64_t bytes_of(const List& tensors) {
  int64_t sum = 0;
  for (const auto& tensor : tensors) sum += static_cast<int64_t>(tensor.nbytes());
  return sum;
}

void clear_all(const List& parameters) {
  for (const auto& parameter : parameters) parameter.mutable_grad().reset();
}

Subject sharded(const ProcessGroup& group, bool whole) {
  examples::Gpt model(kShardedGpt);
  const auto parts = shard_blocks(model, group);
  const auto parameters = parts.parameters();
  const auto optimizer = adamw(parameters);
  const auto batch = batch_of(group);
  const auto loss = [model](const at::Tensor& x, const at::Tensor& y) mutable {
    return model->loss(x, y);
  };
  Subject subject{{}, [parameters] { clear_all(parameters); }, 3 * bytes_of(parameters), group};
  if (whole) {
    auto step = compile_step(model, *optimizer, loss);
    subject.step = [=]() mutable {
      static_cast<void>(optimizer);
      static_cast<void>(parts);
      step(batch[0], batch[1]);
    };
  } else {
    auto step = compile(model, loss);
    subject.step = [=]() mutable {
      static_cast<void>(parts);
      optimizer->zero_grad();
      step(batch[0], batch[1]).backward();
      optimizer->step();
    };
  }
  return subject;
}

/// Many layers that take little time, each a unit, or all of them one: what it costs to gather
/// little at a time.
Subject small_layers(const ProcessGroup& group, bool units, int64_t bucket_bytes) {
  constexpr int64_t kLayers = 48, kWidth = 64, kRows = 32;
  torch::nn::Sequential model;
  std::vector<torch::nn::Linear> layers;
  for (int64_t i = 0; i < kLayers; ++i) {
    layers.emplace_back(kWidth, kWidth);
    model->push_back(layers.back());
    if (units) fully_shard(*layers.back(), group);
  }
  const auto parts = fully_shard(*model, group);
  const auto parameters = parts.parameters();
  const auto optimizer = adamw(parameters);
  const auto x = at::randn({kRows, kWidth});
  auto step = compile(
      model,
      [layers](const at::Tensor& input) mutable {
        auto y = input;
        for (auto& layer : layers) y = layer(y).tanh();
        return y.square().mean();
      },
      Options().with_gather_bucket_bytes(bucket_bytes));
  const auto run = [=]() mutable {
    static_cast<void>(parts);
    optimizer->zero_grad();
    step(x).backward();
    optimizer->step();
  };
  return {run, [parameters] { clear_all(parameters); }, 3 * bytes_of(parameters), group};
}

// libtorch alone, with one flat all-reduce of the gradients.
Subject all_reduce(const ProcessGroup& group) {
  examples::Gpt model(kShardedGpt);
  const auto parameters = model->parameters();
  const auto optimizer = adamw(parameters);
  const auto batch = batch_of(group);
  const auto step = [=]() mutable {
    optimizer->zero_grad();
    model->loss(batch[0], batch[1]).backward();
    List flat;
    for (const auto& parameter : parameters) flat.push_back(parameter.grad().view({-1}));
    auto all = at::cat(flat);
    distributed::all_reduce(*group.state(), all);
    all.mul_(1.0 / group.size());
    int64_t begin = 0;
    for (const auto& parameter : parameters) {
      parameter.mutable_grad().view({-1}).copy_(all.narrow(0, begin, parameter.numel()));
      begin += parameter.numel();
    }
    optimizer->step();
  };
  return {step, [parameters] { clear_all(parameters); }, 3 * bytes_of(parameters), group};
}

/// The collectives of a sharded step alone: gathers for forward and backward, and exchanges.
double collectives_ms(const Sharded& parts) {
  const auto& group = *parts.group().state();
  return time_ms([&] {
    for (const auto& shard : parts.parameters()) {
      const auto here = shard.detach();
      const auto all = distributed::wait(distributed::all_gather(here, group), here);
      distributed::wait(distributed::all_gather(here, group), here);
      distributed::wait(distributed::all_to_all(all, group), all);
    }
  });
}

Json measure(Subject& subject, int steps) {
  std::vector<double> times;
  for (int i = 0; i < kWarmUp; ++i) subject.step();
  for (int i = 0; i < steps; ++i) {
    subject.group.barrier();
    times.push_back(time_ms([&] {
      subject.step();
      subject.group.barrier();
    }));
  }
  subject.clear();
  const auto before = subject.group.stats();
  int64_t peak = 0;
  {
    const MemoryMeter meter;
    subject.step();
    peak = meter.peak_bytes();
  }
  constexpr double kMiB = 1 << 20;
  return {{"step_ms", times},
          {"peak_mib", static_cast<double>(subject.kept_bytes + peak) / kMiB},
          {"wire_mib", static_cast<double>(subject.group.stats().bytes - before.bytes) / kMiB}};
}

int run_rank(const std::string& way, const std::string& file, int steps) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  if (way == "local") {  // the same work, without other ranks
    ::setenv("RANK", "0", 1);
    ::setenv("WORLD_SIZE", "1", 1);
  }
  const bool writes = std::string(std::getenv("RANK")) == "0";
  const auto group = ProcessGroup::of_environment();
  constexpr int64_t kBucket = 1 << 20;
  auto subject = way == "all_reduce"     ? all_reduce(group)
                 : way == "small_units"  ? small_layers(group, /*units=*/true, 0)
                 : way == "small_joined" ? small_layers(group, /*units=*/true, kBucket)
                 : way == "small_whole"  ? small_layers(group, /*units=*/false, 0)
                                         : sharded(group, way == "whole_step");
  auto found = measure(subject, steps);
  if (way == "sharded") {
    examples::Gpt model(kShardedGpt);
    const auto parts = shard_blocks(model, group);
    std::vector<double> times;
    for (int i = 0; i < steps; ++i) times.push_back(collectives_ms(parts));
    found["collectives_ms"] = times;
    const std::string text(1000, 'x');
    times.clear();
    for (int i = 0; i < steps; ++i) {
      times.push_back(time_ms([&] { distributed::agree(*group.state(), text); }));
    }
    found["agree_ms"] = times;
  }
  if (writes) std::ofstream(file) << found.dump();
  return 0;
}

// --- all -----------------------------------------------------------------------------------------

/// What the turns of one way found.
struct Found {
  std::map<std::string, std::vector<double>> values;

  void add(const Json& turn) {
    for (const auto& [name, value] : turn.items()) {
      auto& list = values[name];
      if (value.is_array()) {
        for (const auto& one : value) list.push_back(one.get<double>());
      } else {
        list.push_back(value.get<double>());
      }
    }
  }
  std::optional<double> median(const std::string& name) const {
    const auto known = values.find(name);
    if (known == values.end()) return std::nullopt;
    return examples::median(known->second);
  }
};

std::optional<Json> turn_of(const std::string& way, int steps) {
  const auto file = std::filesystem::temp_directory_path() /
                    fmt::format("antegrad-bench-sharded-{}.json", ::getpid());
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  const bool python = way.starts_with("fsdp2");
  int status = 0;
  if (python) {
    const char* const interpreter = std::getenv("ANTEGRAD_PYTHON");
    if (interpreter == nullptr) {
      note(way + " is left out: ANTEGRAD_PYTHON names no Python with torch");
      return std::nullopt;
    }
    const auto script = std::filesystem::path(ANTEGRAD_BENCH_PEERS_FOLDER) / "sharded.py";
    std::vector<std::string> words = {script.string(), way, file.string(), std::to_string(steps)};
    for (const int64_t number : {kShardedGpt.vocabulary, kShardedGpt.layers, kShardedGpt.width,
                                 kShardedGpt.heads, kShardedGpt.context, kSequencesOfRank}) {
      words.push_back(std::to_string(number));
    }
    status = examples::run_ranks(2, interpreter, words);
  } else {
    status = examples::run_ranks(2, examples::this_program(),
                                 {way, file.string(), std::to_string(steps)});
  }
  std::ifstream in(file);
  if (status != 0 || !in) {
    note(fmt::format("{} is left out: a rank ended with status {}", way, status));
    return std::nullopt;
  }
  return Json::parse(in);
}

void run_small_layers(Bench& bench) {
  if (!bench.wants("small_layers@2")) return;
  std::map<std::string, Found> found;
  for (int turn = 0; turn < (bench.quick() ? 1 : 3); ++turn) {
    for (const std::string way : {"small_units", "small_joined", "small_whole"}) {
      if (const auto json = turn_of(way, bench.rounds(100))) found[way].add(*json);
    }
  }
  const auto whole = found["small_whole"].median("step_ms");
  for (const auto& [way, metric] :
       {std::pair{"small_units", "step_ms"}, std::pair{"small_joined", "joined_step_ms"}}) {
    const auto units = found[way].median("step_ms");
    if (units && whole) {
      bench.add({"small_layers@2", metric, *units, "ms", Peer{"one_unit", *whole}, {}});
    }
  }
}

void run_gpt(Bench& bench) {
  if (!bench.wants("gpt@2")) return;
  const std::vector<std::string> ways = {"sharded",    "whole_step", "local",
                                         "all_reduce", "fsdp2",      "fsdp2_compiled"};
  std::map<std::string, Found> found;
  const int turns = bench.quick() ? 1 : 3;
  for (int turn = 0; turn < turns; ++turn) {
    for (const auto& way : ways) {
      if (turn > 0 && found[way].values.empty()) continue;
      note(fmt::format("turn {} of {}: {}", turn + 1, turns, way));
      if (const auto json = turn_of(way, bench.rounds(20))) found[way].add(*json);
    }
  }
  const auto add = [&](const std::string& way, const std::string& prefix, const char* metric,
                       const char* unit) {
    const auto ours = found[way].median(metric);
    if (!ours) return;
    for (const auto* peer : {"all_reduce", "fsdp2", "fsdp2_compiled"}) {
      if (const auto theirs = found[peer].median(metric)) {
        bench.add({"gpt@2", prefix + metric, *ours, unit, Peer{peer, *theirs}, {}});
      }
    }
  };
  for (const auto& [way, prefix] :
       {std::pair<std::string, std::string>{"sharded", ""}, {"whole_step", "whole_step_"}}) {
    add(way, prefix, "step_ms", "ms");
    add(way, prefix, "peak_mib", "MiB");
  }
  const auto& ours = found["sharded"];
  if (const auto wire = ours.median("wire_mib")) {
    bench.add({"gpt@2", "wire_mib", *wire, "MiB", {}, {}});
  }
  const auto step = ours.median("step_ms"), local = found["local"].median("step_ms"),
             collectives = ours.median("collectives_ms");
  if (step && local && collectives) {
    bench.add({"gpt@2", "local_step_ms", *local, "ms", {}, {}});
    bench.add({"gpt@2", "collectives_ms", *collectives, "ms", {}, {}});
    bench.add({"gpt@2", "hidden_share", 1 - (*step - *local) / *collectives, "", {}, {}});
  }
  if (const auto agree = ours.median("agree_ms")) {
    bench.add({"gpt@2", "agree_ms", *agree, "ms", {}, {}});
  }
}

void run(Bench& bench) {
  run_small_layers(bench);
  run_gpt(bench);
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad;  // NOLINT
  if (examples::is_launched() && argc == 4) {
    return bench::run_bench([&] { bench::run_rank(argv[1], argv[2], std::atoi(argv[3])); });
  }
  return bench::run_bench("sharded", argc, argv, bench::run);
}
