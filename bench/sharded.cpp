// Two processes that train one GPT: sharded, beside C++ that averages gradients by hand and
// PyTorch's FSDP2, eager and compiled. Where there are several GPUs, also GPT-2 medium on all of
// them, which computes in bfloat16. And small layers, each gathered by itself, or all at once.
//
// Each of them runs in processes of its own, for some steps, in turns with the others; medians are
// over all turns. One thread for each rank. --quick takes a smaller model. Of a step:
//
//   step_ms       zero_grad, forward, backward and AdamW, between barriers: the slowest rank
//                 counts.
//   peak_mib      of rank 0: the most bytes in the allocator above what lives before the step,
//                 gradients undefined, and what lives always, parameters and optimizer state.
//                 Gradients are in the first part, since zero_grad frees them. Memory that
//                 programs keep for later calls is not alive.
//   wire_mib      handed to collectives by a rank: what gathers make, what reductions take. Ours is
//                 gather of the forward + gather of the backward + reduction, each of the padded
//                 elements of all units.
//   socket_mib    that the machine's loopback carries in a step for each rank, as the system counts
//                 them: with headers, agreements and barriers, and with whatever else runs there.
//   hidden_share  1 - (pass - local pass) / collectives. A pass is a step without the optimizer,
//                 which has more to do when nothing is sharded; a local one is that of a group of
//                 one rank, without collectives and without the packing around them. The
//                 collectives alone are those of wire_mib, one after the other. Below 0,
//                 collectives cost a pass more than they take alone.

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "common/child.h"
#include "common/gpu_memory.h"
#include "common/harness.h"
#include "common/models.h"
#include "common/processes.h"
#include "common/sharded_gpt.h"
#include "distributed/collectives.h"

namespace antegrad::bench {
namespace {

using Json = nlohmann::json;
using List = std::vector<at::Tensor>;

constexpr double kMiB = 1 << 20;
constexpr int kWarmUp = 4;
/// The word on the command line that makes this program one rank.
constexpr const char* kRank = "--rank";

constexpr Training kQuick{{.vocabulary = 256, .layers = 2, .width = 128, .heads = 4, .context = 64},
                          2};
/// GPT-2 medium.
constexpr Training kOnGpus{
    {.vocabulary = 50304, .layers = 24, .width = 1024, .heads = 16, .context = 1024}, 8, true};

// --- one rank ------------------------------------------------------------------------------------

/// What a rank trains, in one of the ways that are compared.
struct Subject {
  ProcessGroup group;
  bool on_gpus = false;
  std::function<at::Tensor()> step;       // returns the loss
  std::function<void()> clear;            // gradients
  int64_t kept_bytes = 0;                 // parameters and optimizer state
  std::function<at::Tensor()> pass = {};  // a step without the optimizer
  std::function<int64_t()> eager_calls = [] { return 0; };
  std::optional<Sharded> parts = {};
};

int64_t bytes_of(const List& tensors) {
  int64_t sum = 0;
  for (const auto& tensor : tensors) sum += static_cast<int64_t>(tensor.nbytes());
  return sum;
}

void clear_all(const List& parameters) {
  for (const auto& parameter : parameters) parameter.mutable_grad().reset();
}

Subject sharded(const Training& training, const ProcessGroup& group, bool whole) {
  auto model = model_of(training, group);
  const auto parts = shard_blocks(training, model, group);
  const auto parameters = parts.parameters();
  const auto optimizer = adamw(parameters);
  const auto batch = batch_of(training, group);
  const auto loss = [model](const at::Tensor& x, const at::Tensor& y) mutable {
    return model->loss(x, y);
  };
  Subject subject{
      group, training.on_gpus, {}, [=] { clear_all(parameters); }, 3 * bytes_of(parameters)};
  subject.parts = parts;
  const auto count_eager = [](const auto& compiled) {
    return [compiled] { return compiled->report().eager_calls; };
  };
  if (whole) {
    const auto compiled = std::make_shared<decltype(compile_step(model, *optimizer, loss))>(
        compile_step(model, *optimizer, loss));
    subject.step = [=] {
      static_cast<void>(optimizer);  // lives as long as the step
      return (*compiled)(batch[0], batch[1]);
    };
    subject.eager_calls = count_eager(compiled);
  } else {
    const auto compiled = std::make_shared<decltype(compile(model, loss))>(compile(model, loss));
    const auto pass = [=] {
      optimizer->zero_grad();
      const at::Tensor result = (*compiled)(batch[0], batch[1]);
      result.backward();
      return result.detach();
    };
    subject.pass = pass;
    subject.step = [=] {
      auto result = pass();
      optimizer->step();
      return result;
    };
    subject.eager_calls = count_eager(compiled);
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
  const auto loss = [layers](const at::Tensor& input) mutable {
    auto y = input;
    for (auto& layer : layers) y = layer(y).tanh();
    return y.square().mean();
  };
  const auto options = Options().with_gather_bucket_bytes(bucket_bytes);
  const auto compiled =
      std::make_shared<decltype(compile(model, loss, options))>(compile(model, loss, options));
  Subject subject{group, false, {}, [=] { clear_all(parameters); }, 3 * bytes_of(parameters)};
  subject.parts = parts;
  subject.step = [=] {
    optimizer->zero_grad();
    const at::Tensor result = (*compiled)(x);
    result.backward();
    optimizer->step();
    return result.detach();
  };
  subject.eager_calls = [compiled] { return compiled->report().eager_calls; };
  return subject;
}

// libtorch alone, with one flat all-reduce of the gradients.
Subject all_reduce(const Training& training, const ProcessGroup& group) {
  auto model = model_of(training, group);
  const auto parameters = model->parameters();
  const auto optimizer = adamw(parameters);
  const auto batch = batch_of(training, group);
  const auto step = [=]() mutable {
    optimizer->zero_grad();
    const auto loss = model->loss(batch[0], batch[1]);
    loss.backward();
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
    return loss.detach();
  };
  return {group, training.on_gpus, step, [parameters] { clear_all(parameters); },
          3 * bytes_of(parameters)};
}

/// A group of this process alone, beside that of all.
ProcessGroup group_of_one() {
  const std::string name = "alone";
  auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(),
                                                       /*rank=*/0, /*size=*/1);
  group->setGroupName(name);
  c10d::register_process_group(name, group);
  return ProcessGroup::of_c10d(name);
}

void synchronize(const Subject& subject) {
  if (subject.on_gpus) torch::cuda::synchronize();
}

/// Milliseconds from one barrier to the next.
double ms_between_barriers(const Subject& subject, const std::function<void()>& run) {
  synchronize(subject);
  subject.group.barrier();
  return time_ms([&] {
    run();
    synchronize(subject);
    subject.group.barrier();
  });
}

void run_collectives(const Subject& subject) {
  const auto& group = *subject.group.state();
  for (const auto& shard : subject.parts->parameters()) {
    auto here = shard.detach();
    const auto gradients = at::empty({here.numel() * group.size}, here.options());
    if (subject.on_gpus) here = here.to(at::kBFloat16);
    distributed::wait(distributed::all_gather(here, group), here);
    distributed::wait(distributed::all_gather(here, group), here);
    distributed::wait(distributed::all_to_all(gradients, group), gradients);
  }
}

// Of all ranks, padded.
int64_t elements_of(const Sharded& sharded) {
  int64_t sum = 0;
  for (const auto& part : sharded.parts()) sum += part.elements_here * sharded.group().size();
  return sum;
}

// Above what lives before it.
int64_t peak_of_step(const Subject& subject) {
  subject.clear();
  synchronize(subject);
  subject.group.barrier();
  if (subject.on_gpus) {
    return gpu_peak_bytes(subject.parts->parameters()[0].get_device(), [&] { subject.step(); });
  }
  const MemoryMeter meter;
  subject.step();
  return meter.peak_bytes();
}

// Threads of Gloo may let go of a tensor late, so the least of some steps counts.
int64_t peak_of(const Subject& subject) {
  auto least = peak_of_step(subject);
  for (int i = 0; i < 2; ++i) least = std::min(least, peak_of_step(subject));
  return least;
}

int64_t wire_bytes_of(const Subject& subject) {
  const auto before = subject.group.stats().bytes;
  subject.step();
  return subject.group.stats().bytes - before;
}

/// That the loopback interface sent so far; 0 where the system does not say it.
int64_t socket_bytes() {
  std::ifstream in("/proc/net/dev");
  for (std::string line; std::getline(in, line);) {
    const auto name = line.find("lo:");
    if (name == std::string::npos) continue;
    constexpr int kReceived = 8;  // numbers before that of sent bytes
    std::istringstream numbers(line.substr(name + 3));
    int64_t number = 0;
    for (int i = 0; i <= kReceived && numbers >> number; ++i) continue;
    return number;
  }
  return 0;
}

// Of one rank, if all send as much.
double socket_mib_of(const Subject& subject) {
  constexpr int kSteps = 4;
  subject.group.barrier();
  const auto before = socket_bytes();
  for (int i = 0; i < kSteps; ++i) subject.step();
  synchronize(subject);
  subject.group.barrier();
  const auto sent = static_cast<double>(socket_bytes() - before);
  return sent / kMiB / kSteps / subject.group.size();
}

void check_compiled(const Subject& subject) {
  AG_CHECK(subject.eager_calls() == 0, "a compiled call ran eagerly");
}

Json measure(const Subject& subject, int steps) {
  double loss = 0;
  for (int i = 0; i < kWarmUp; ++i) loss = subject.step().item<double>();
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    times.push_back(ms_between_barriers(subject, [&] { subject.step(); }));
  }
  const auto peak = subject.kept_bytes + peak_of(subject);
  Json found = {{"loss", loss},
                {"step_ms", times},
                {"peak_mib", static_cast<double>(peak) / kMiB},
                {"wire_mib", static_cast<double>(wire_bytes_of(subject)) / kMiB},
                {"socket_mib", socket_mib_of(subject)}};
  if (subject.parts) {
    const int64_t gathered = subject.on_gpus ? sizeof(at::BFloat16) : sizeof(float);
    const auto formula = elements_of(*subject.parts) * (2 * gathered + int64_t{sizeof(float)});
    found["formula_mib"] = static_cast<double>(formula) / kMiB;
  }
  check_compiled(subject);
  return found;
}

// Passes with and without collectives, and collectives without passes, in turns.
Json measure_overlap(const Training& training, const ProcessGroup& group, int rounds) {
  const auto together = sharded(training, group, /*whole=*/false);
  const auto alone = sharded(training, group_of_one(), /*whole=*/false);
  const std::string text(1000, 'x');
  const auto round = [&](const char* what, Json& found, const std::function<void()>& run) {
    const auto ms = ms_between_barriers(together, run);
    found[what].push_back(ms);
    return ms;
  };
  const auto all = [&](Json& found) {
    const auto pass = round("pass_ms", found, [&] { together.pass(); });
    const auto local = round("local_pass_ms", found, [&] { alone.pass(); });
    found["exposed_ms"].push_back(pass - local);
    round("collectives_ms", found, [&] { run_collectives(together); });
    group.barrier();
    found["agree_ms"].push_back(time_ms([&] { distributed::agree(*group.state(), text); }));
  };
  Json found, ignored;
  for (int i = 0; i < kWarmUp; ++i) all(ignored);
  for (int i = 0; i < rounds; ++i) all(found);
  check_compiled(together);
  check_compiled(alone);
  return found;
}

/// The words after kRank, which those of bench/peers/sharded.py equal.
std::vector<std::string> words_of(const std::string& way, const std::string& file, int steps,
                                  const Training& training) {
  std::vector<std::string> words = {way, file, std::to_string(steps)};
  const auto& gpt = training.gpt;
  for (const int64_t number : {gpt.vocabulary, gpt.layers, gpt.width, gpt.heads, gpt.context,
                               training.batch, int64_t{training.on_gpus}}) {
    words.push_back(std::to_string(number));
  }
  return words;
}

constexpr size_t kWords = 10;
constexpr int64_t kBucket = 1 << 20;

void run_rank(const std::vector<std::string>& words) {
  AG_CHECK(words.size() == kWords, "a rank takes the words of words_of()");
  const auto number = [&](size_t i) -> int64_t { return std::stoll(words[i]); };
  const Training training{{.vocabulary = number(3),
                           .layers = number(4),
                           .width = number(5),
                           .heads = number(6),
                           .context = number(7)},
                          number(8),
                          number(9) != 0};
  const auto& way = words[0];
  const auto steps = static_cast<int>(number(2));
  at::set_num_threads(1);
  torch::manual_seed(0);
  const auto group = ProcessGroup::of_environment();
  const c10::DeviceGuard of_this_rank(device_of(training, group));
  Json found;
  if (way == "overlap") {
    found = measure_overlap(training, group, steps);
  } else if (way == "all_reduce") {
    found = measure(all_reduce(training, group), steps);
  } else if (way == "small_units") {
    found = measure(small_layers(group, /*units=*/true, 0), steps);
  } else if (way == "small_joined") {
    found = measure(small_layers(group, /*units=*/true, kBucket), steps);
  } else if (way == "small_whole") {
    found = measure(small_layers(group, /*units=*/false, 0), steps);
  } else {
    found = measure(sharded(training, group, way == "whole_step"), steps);
  }
  if (group.rank() == 0) std::ofstream(words[1]) << found.dump();
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

/// The Python that has torch, or null.
const char* python() {
  const char* const name = std::getenv("ANTEGRAD_PYTHON");
  return name == nullptr || *name == '\0' ? nullptr : name;
}

bool is_python(const std::string& way) { return way.starts_with("fsdp2"); }

int run_ranks_of(const std::string& way, int ranks, std::vector<std::string> words) {
  if (is_python(way)) {
    const auto script = std::filesystem::path(ANTEGRAD_BENCH_PEERS_FOLDER) / "sharded.py";
    words.insert(words.begin(), script.string());
    return examples::run_ranks(ranks, python(), words);
  }
  words.insert(words.begin(), kRank);
  return examples::run_ranks(ranks, examples::this_program(), words);
}

/// Nothing for a peer in Python that cannot run, with a note: the bench still has the others.
std::optional<Json> turn_of(const std::string& way, int ranks, int steps,
                            const Training& training) {
  if (is_python(way) && python() == nullptr) {
    note(way + " is left out: ANTEGRAD_PYTHON, a Python that has torch, is not set");
    return std::nullopt;
  }
  const auto file = std::filesystem::temp_directory_path() /
                    fmt::format("antegrad-bench-sharded-{}.json", ::getpid());
  const int status = run_ranks_of(way, ranks, words_of(way, file.string(), steps, training));
  std::ifstream in(file);
  const auto found = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  if (status == 0 && found.is_object()) return found;
  const auto why = fmt::format("{}: a rank ended with status {}; it says why above", way, status);
  if (!is_python(way)) throw Error(why);
  note("left out: " + why);
  return std::nullopt;
}

using FoundByWay = std::map<std::string, Found>;

// That those in C++, which start with the same parameters, train the same.
void check_losses(const FoundByWay& found) {
  constexpr double kTolerance = 1e-3;
  const auto expected = *found.at("sharded").median("loss");
  for (const auto* way : {"whole_step", "all_reduce"}) {
    const auto known = found.find(way);
    if (known == found.end()) continue;
    const auto loss = *known->second.median("loss");
    AG_CHECK(std::abs(loss - expected) <= kTolerance * expected,
             fmt::format("the loss of {} is {}, that of sharded {}", way, loss, expected));
  }
}

/// A line of the bench: one model, on so many ranks.
struct Row {
  std::string name;
  Training training;
  int ranks = 2;
  std::vector<std::string> peers;
};

void add_beside_peers(Bench& bench, const Row& row, const FoundByWay& found, const std::string& way,
                      const std::string& prefix) {
  for (const auto& [metric, unit] : {std::pair<std::string, const char*>{"step_ms", "ms"},
                                     {"peak_mib", "MiB"},
                                     {"wire_mib", "MiB"}}) {
    const auto ours = *found.at(way).median(metric);
    for (const auto& peer : row.peers) {
      if (const auto theirs = found.at(peer).median(metric)) {
        bench.add({row.name, prefix + metric, ours, unit, Peer{peer, *theirs}, {}});
      }
    }
  }
  const auto wire = *found.at(way).median("wire_mib");
  const auto formula = *found.at(way).median("formula_mib");
  bench.add({row.name, prefix + "wire_mib", wire, "MiB", Peer{"formula", formula}, {}});
  bench.add({row.name,
             prefix + "socket_mib",
             *found.at(way).median("socket_mib"),
             "MiB",
             Peer{"wire_mib", wire},
             {}});
}

void add_overlap(Bench& bench, const Row& row, const Found& overlap) {
  const auto collectives = *overlap.median("collectives_ms");
  const auto hidden = 1 - *overlap.median("exposed_ms") / collectives;
  bench.add({row.name,
             "pass_ms",
             *overlap.median("pass_ms"),
             "ms",
             Peer{"local", *overlap.median("local_pass_ms")},
             {}});
  bench.add({row.name, "collectives_ms", collectives, "ms", {}, {}});
  bench.add({row.name, "hidden_share", hidden, "", {}, {}});
  // Of each forward and each backward: eight bytes are gathered.
  bench.add({row.name, "agree_ms", *overlap.median("agree_ms"), "ms", {}, {}});
}

void run_row(Bench& bench, const Row& row) {
  if (!bench.wants(row.name)) return;
  std::vector<std::string> ways = {"sharded", "whole_step", "overlap"};
  ways.insert(ways.end(), row.peers.begin(), row.peers.end());
  const int turns = bench.quick() ? 1 : 3;
  FoundByWay found;
  for (int turn = 0; turn < turns; ++turn) {
    for (const auto& way : ways) {
      auto& known = found[way];
      if (turn > 0 && known.values.empty()) continue;  // left out
      note(fmt::format("{}, turn {} of {}: {}", row.name, turn + 1, turns, way));
      if (const auto json = turn_of(way, row.ranks, bench.rounds(20), row.training)) {
        known.add(*json);
      }
    }
  }
  check_losses(found);
  add_beside_peers(bench, row, found, "sharded", "");
  add_beside_peers(bench, row, found, "whole_step", "whole_step_");
  add_overlap(bench, row, found.at("overlap"));
}

void run_small_layers(Bench& bench) {
  if (!bench.wants("small_layers@2")) return;
  FoundByWay found;
  for (int turn = 0; turn < (bench.quick() ? 1 : 3); ++turn) {
    for (const auto* way : {"small_units", "small_joined", "small_whole"}) {
      if (const auto json = turn_of(way, 2, bench.rounds(100), kQuick)) found[way].add(*json);
    }
  }
  const auto whole = *found["small_whole"].median("step_ms");
  for (const auto& [way, metric] :
       {std::pair{"small_units", "step_ms"}, std::pair{"small_joined", "joined_step_ms"}}) {
    const auto units = *found[way].median("step_ms");
    bench.add({"small_layers@2", metric, units, "ms", Peer{"one_unit", whole}, {}});
  }
}

void run(Bench& bench) {
  run_small_layers(bench);
  run_row(
      bench,
      {"gpt@2", bench.quick() ? kQuick : kSmallGpt, 2, {"all_reduce", "fsdp2", "fsdp2_compiled"}});
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus > 1) {
    run_row(bench,
            {fmt::format("gpt2_medium@{}", gpus), kOnGpus, gpus, {"fsdp2", "fsdp2_compiled"}});
  }
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad::bench;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == kRank) {
    return run_bench([&] { run_rank({words.begin() + 1, words.end()}); });
  }
  return run_bench("sharded", argc, argv, run);
}
