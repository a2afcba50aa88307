// Step times of sharded training on numbers of ranks that this machine cannot run.
//
// It measures a small GPT here, on 1, 2 and 4 processes, and what links between processes take. A
// step is then played back from the graphs of its forward and backward (explain/rank_step.h):
// nodes take what the cost model says, scaled so that a rank without others takes what it was
// measured to take, and collectives what links and algorithm say (cost/network.h). Played back with
// the links of this machine, it must come out as measured; by how much it does not is printed.
// Networks that were not measured are assumptions, and are called so.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <antegrad/antegrad.h>
#include <fmt/format.h>
#include <torch/utils.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/child.h"
#include "common/harness.h"
#include "common/processes.h"
#include "common/sharded_gpt.h"
#include "cost/network.h"
#include "distributed/collectives.h"
#include "explain/rank_step.h"
#include "explain/table.h"
#include "graph/parse.h"
#include "passes/collectives.h"

namespace antegrad::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kWarmUp = 4;
constexpr double kMilli = 1e-3, kMicro = 1e-6, kGiga = 1e9, kMiB = 1 << 20;

// --- one rank ------------------------------------------------------------------------------------

constexpr int64_t kFewElements = 16, kManyElements = 1 << 20;  // of all ranks together

/// Other programs on the machine can only add to a time.
double least(const std::vector<double>& times) { return *std::ranges::min_element(times); }

/// Milliseconds of a gather and an exchange of so many numbers, in the mean.
double collective_ms(const ProcessGroup& group, int64_t elements, int times) {
  const auto& state = *group.state();
  const auto mine = at::zeros({elements / group.size()});
  const auto all = at::zeros({elements});
  std::vector<double> found;
  for (int i = 0; i < times; ++i) {
    group.barrier();
    found.push_back(time_ms([&] {
      distributed::wait(distributed::all_gather(mine, state), mine);
      distributed::wait(distributed::all_to_all(all, state), all);
    }));
  }
  return least(found) / 2;
}

/// Trains for some steps, in processes of a group or, with `alone`, beside the others without
/// knowing of them. Rank 0 writes what it measured, and graphs.
int run_rank(bool alone, const fs::path& folder, int steps) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  const bool writes = std::string(std::getenv("RANK")) == "0";
  if (alone) {
    ::setenv("RANK", "0", 1);
    ::setenv("WORLD_SIZE", "1", 1);
  }
  const auto group = ProcessGroup::of_environment();
  auto model = model_of(kSmallGpt, group);
  const auto sharded = shard_blocks(kSmallGpt, model, group);
  const auto optimizer = adamw(sharded.parameters());
  const auto batch = batch_of(kSmallGpt, group);
  Options options;
  if (writes) options.with_dump_dir((folder / "graphs").string());
  auto step = compile(
      model,
      [model](const at::Tensor& x, const at::Tensor& y) mutable { return model->loss(x, y); },
      options);
  std::vector<double> step_ms, optimizer_ms;
  for (int i = -kWarmUp; i < steps; ++i) {
    group.barrier();
    double update = 0;
    const auto whole = time_ms([&] {
      optimizer->zero_grad();
      step(batch[0], batch[1]).backward();
      update = time_ms([&] { optimizer->step(); });
      group.barrier();
    });
    if (i < 0) continue;
    step_ms.push_back(whole);
    optimizer_ms.push_back(update);
  }
  const auto program = step.report().programs.at(0);
  Json found = {{"step_ms", least(step_ms)},
                {"optimizer_ms", least(optimizer_ms)},
                {"compile_ms", program.capture_ms + program.compile_ms}};
  if (group.size() > 1) {
    found["few_ms"] = collective_ms(group, kFewElements, 20 * steps);
    found["many_ms"] = collective_ms(group, kManyElements, 2 * steps);
  }
  if (writes) std::ofstream(folder / "found.json") << found.dump();
  return 0;
}

// --- this machine --------------------------------------------------------------------------------

struct Measured {
  double step = 0, optimizer = 0;    // seconds
  double few = 0, many = 0;          // seconds of collectives
  double compile = 0;                // seconds
  std::vector<Graph> programs = {};  // forward and backward, before they are overlapped
};

/// Of the pass that divides the graph.
std::vector<Graph> read_programs(const fs::path& folder) {
  std::vector<Graph> programs;
  for (const std::string part : {"-split-forward.agraph", "-split-backward.agraph"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.path().string().ends_with(part)) continue;
      std::ifstream in(entry.path());
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      programs.push_back(parse_graph(text, entry.path().string()));
    }
  }
  return programs;
}

Measured measure(bool alone, int ranks, int steps) {
  note(fmt::format("{} processes, {}", ranks, alone ? "each alone" : "one group"));
  const auto folder =
      fs::temp_directory_path() / fmt::format("antegrad-bench-ranks-{}", ::getpid());
  fs::create_directories(folder);
  const int status =
      examples::run_ranks(ranks, examples::this_program(),
                          {alone ? "alone" : "group", folder.string(), std::to_string(steps)});
  if (status != 0) throw Error(fmt::format("a rank ended with status {}", status));
  std::ifstream in(folder / "found.json");
  const auto found = Json::parse(in);
  const auto seconds = [&](const char* name) { return found.value(name, 0.0) * kMilli; };
  Measured measured{seconds("step_ms"), seconds("optimizer_ms"), seconds("few_ms"),
                    seconds("many_ms"), seconds("compile_ms"),   read_programs(folder / "graphs")};
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) fs::remove(entry.path(), ignored);
  }
  return measured;
}

/// Seconds of a request to the store that ranks share, over loopback.
double store_request_seconds() {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(examples::free_port());
  options.isServer = true;
  options.numWorkers = 1;
  c10d::TCPStore store("127.0.0.1", options);
  return time_us(5, 1000, [&] { store.add("count", 1); }) * kMicro;
}

/// From a small and a large collective of two ranks.
Link link_of(const Measured& two) {
  const double half = static_cast<double>(kManyElements * sizeof(float)) / 2;
  return {two.few, half / (two.many - two.few)};
}

/// The link of a process where more of them run than there are cores.
Link shared(const Link& link, double processes_of_core) {
  return {link.latency * processes_of_core, link.bytes_per_second / processes_of_core};
}

// --- steps that are played back ------------------------------------------------------------------

/// What a step computes on any number of ranks.
struct Subject {
  std::vector<Graph> programs;  // of two ranks
  double cost = 0;              // of the programs of one rank, by the cost model
  int64_t prefetch = 1;
};

std::vector<Graph> overlapped(const Subject& subject) {
  std::vector<Graph> programs;
  for (const Graph& program : subject.programs) {
    programs.push_back(overlap_collectives(program, subject.prefetch));
  }
  return programs;
}

struct Played {
  double step = 0;
  double collectives = 0;  // seconds that the network works
};

/// `alone`: a rank without others. Each holds its part of the optimizer's state.
Played play(const Subject& subject, const Measured& alone, const Network& network, int64_t ranks,
            CollectiveAlgorithm algorithm, double core_share) {
  const double scale = (alone.step - alone.optimizer) / subject.cost;
  const auto step = rank_step(overlapped(subject), kCpu, scale);
  Played played;
  const auto seconds_of = [&](const RankCollective& collective) {
    return collective_seconds(network, ranks, collective.bytes, algorithm);
  };
  for (const auto& collective : step.collectives) played.collectives += seconds_of(collective);
  // Each program begins with an agreement: eight bytes of each rank.
  const double agreement =
      collective_seconds(network, ranks, 8.0 * static_cast<double>(ranks), algorithm);
  played.step = step_seconds(step, core_share, seconds_of) + 2 * agreement +
                alone.optimizer / static_cast<double>(ranks);
  return played;
}

// --- what is printed -----------------------------------------------------------------------------

struct NetworkClass {
  std::string name;
  Link between;
};

struct Choice {
  std::vector<int64_t> ranks = {8, 64, 1024};
  int64_t ranks_of_machine = 8;
  double between_gbs = 0, between_us = 0;
  double inside_gbs = 0, inside_us = 0;
  int64_t prefetch = 1;
};

void add_options(CLI::App& app, Choice& choice) {
  app.add_option("--ranks", choice.ranks, "numbers of ranks to play a step back on")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--ranks-of-machine", choice.ranks_of_machine, "ranks of a machine")
      ->check(CLI::PositiveNumber);
  app.add_option("--between-gbs", choice.between_gbs,
                 "GB/s from a machine to others; 0: classes of networks");
  app.add_option("--between-us", choice.between_us, "microseconds of a message between machines");
  app.add_option("--inside-gbs", choice.inside_gbs,
                 "GB/s from a rank to others of its machine; 0: as measured");
  app.add_option("--inside-us", choice.inside_us,
                 "microseconds of a message within a machine; 0: as measured");
  app.add_option("--prefetch", choice.prefetch, "gathers that start ahead")
      ->check(CLI::NonNegativeNumber);
}

/// Rates of the line, by name; no machine of this project has measured them. A message over TCP is
/// assumed to take 20 microseconds.
std::vector<NetworkClass> networks(const Choice& choice) {
  constexpr double kLatency = 20e-6;
  if (choice.between_gbs > 0) {
    return {{"as given", {choice.between_us * kMicro, choice.between_gbs * kGiga}}};
  }
  return {{"10 Gb/s (assumed)", {kLatency, 1.25 * kGiga}},
          {"100 Gb/s (assumed)", {kLatency, 12.5 * kGiga}},
          {"400 Gb/s (assumed)", {kLatency, 50 * kGiga}}};
}

/// The size of a unit for which latency is a tenth of the time of a gather.
double bytes_beyond_latency(const Network& network, int64_t ranks, CollectiveAlgorithm algorithm) {
  const double latency = collective_seconds(network, ranks, 0, algorithm);
  const double of_byte = (collective_seconds(network, ranks, kGiga, algorithm) - latency) / kGiga;
  return 9 * latency / of_byte;
}

std::string ms(double seconds) { return fmt::format("{:.1f}", seconds / kMilli); }

/// Beside what was measured here.
void check(Bench& bench, const Subject& subject, const Link& link, int steps,
           const std::vector<std::pair<Measured, Measured>>& counts) {
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  Table table({Align::left, Align::right, Align::right, Align::right, Align::right});
  table.add({"ranks", "alone ms", "measured ms", "played back ms", "off"});
  int ranks = 1;
  for (const auto& [alone, group] : counts) {
    const Network network{.inside = shared(link, std::max(1.0, ranks / cores)),
                          .ranks_of_machine = ranks};
    const auto played = play(subject, alone, network, ranks, CollectiveAlgorithm::flat, 1);
    table.add({std::to_string(ranks), ms(alone.step), ms(group.step), ms(played.step),
               fmt::format("{:+.0f} %", 100 * (played.step / group.step - 1))});
    bench.add({fmt::format("gpt@{}", ranks),
               "played_back_ms",
               played.step / kMilli,
               "ms",
               Peer{"measured", group.step / kMilli},
               {}});
    ranks *= 2;
  }
  fmt::print("\nThis machine, {} cores, the least of {} steps\n{}", cores, steps, table.text());
}

void print_plan(const Subject& subject, const Measured& alone, const Link& inside,
                const Choice& choice) {
  Table table({Align::left, Align::right, Align::left, Align::right, Align::right, Align::right,
               Align::right});
  table.add({"network", "ranks", "algorithm", "collectives ms", "step ms, none hidden",
             "step ms, network alone", "unit MiB"});
  std::set<int64_t> done;  // those of one machine, where the network between them does not matter
  for (const auto& [name, between] : networks(choice)) {
    for (const int64_t ranks : choice.ranks) {
      const Network network{inside, between, choice.ranks_of_machine};
      const bool one_machine = ranks <= choice.ranks_of_machine;
      if (one_machine && !done.insert(ranks).second) continue;
      for (size_t a = 0; a < kCollectiveAlgorithms.size(); ++a) {
        if (one_machine && a > 0) break;
        const auto algorithm = static_cast<CollectiveAlgorithm>(a);
        const auto copied = play(subject, alone, network, ranks, algorithm, 1);
        const auto beside = play(subject, alone, network, ranks, algorithm, 0);
        table.add({one_machine ? "one machine" : name, std::to_string(ranks),
                   std::string(kCollectiveAlgorithms[a]), ms(copied.collectives), ms(copied.step),
                   ms(beside.step),
                   fmt::format("{:.1f}", bytes_beyond_latency(network, ranks, algorithm) / kMiB)});
      }
    }
  }
  fmt::print("\nPlayed back with {} ranks a machine; unit: of which latency is a tenth\n{}",
             choice.ranks_of_machine, table.text());
}

/// What ranks ask of the store: each counts four times a second; to join, each reads the address of
/// each other one; after a failure, each looks at two counts of each other one.
void print_store(double request, const Choice& choice) {
  Table table({Align::right, Align::right, Align::right, Align::right});
  table.add({"ranks", "heartbeat, share of the store", "join s", "look for a fault s"});
  for (const int64_t ranks : choice.ranks) {
    const auto n = static_cast<double>(ranks);
    table.add({std::to_string(ranks), fmt::format("{:.2f} %", 100 * 4 * n * request),
               fmt::format("{:.2f}", n * (n - 1) * request),
               fmt::format("{:.2f}", 2 * n * (n - 1) * request)});
  }
  fmt::print("\nOne store, {:.0f} us a request\n{}", request / kMicro, table.text());
}

void run(Bench& bench, const Choice& choice) {
  const int steps = bench.rounds(20);
  std::vector<std::pair<Measured, Measured>> counts;  // alone and as a group: 1, 2 and 4 ranks
  for (const int ranks : {1, 2, 4}) {
    counts.emplace_back(measure(true, ranks, steps), measure(false, ranks, steps));
  }
  const auto& [alone, one] = counts[0];
  const auto link = link_of(counts[1].second);
  Subject subject{counts[1].second.programs, 0, choice.prefetch};
  subject.cost = rank_step(alone.programs, kCpu, 1).compute_seconds();
  const double request = store_request_seconds();
  bench.add({"loopback", "latency_us", link.latency / kMicro, "us", {}, {}});
  bench.add({"loopback", "bandwidth_gbs", link.bytes_per_second / kGiga, "GB/s", {}, {}});
  bench.add({"loopback", "store_request_us", request / kMicro, "us", {}, {}});
  check(bench, subject, link, steps, counts);
  Link inside = link;
  if (choice.inside_gbs > 0) inside.bytes_per_second = choice.inside_gbs * kGiga;
  if (choice.inside_us > 0) inside.latency = choice.inside_us * kMicro;
  print_plan(subject, alone, inside, choice);
  print_store(request, choice);
  fmt::print("\nCompiling the step takes each rank {:.0f} ms\n", alone.compile / kMilli);
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  using namespace antegrad;  // NOLINT
  if (examples::is_launched() && argc == 4) {
    return bench::run_bench(
        [&] { bench::run_rank(argv[1] == std::string("alone"), argv[2], std::atoi(argv[3])); });
  }
  return bench::run_bench([&] {
    bench::Choice choice;
    bench::Bench bench("ranks", argc, argv,
                       [&](CLI::App& app) { bench::add_options(app, choice); });
    bench::run(bench, choice);
  });
}
