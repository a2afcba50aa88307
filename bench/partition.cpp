// The time of partitioners: on the joint graphs of GPTs of 12 and 120 layers, simplified as in the
// pipeline and compared with AOTAutograd, and on generated graphs of 10,000 and 100,000 nodes. Also
// the time of a plan for a byte budget, on the GPTs.

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "common/child.h"
#include "common/generated.h"
#include "common/gpt12.h"
#include "common/harness.h"
#include "cost/machine.h"
#include "memory/peak.h"
#include "partition/budget/planner.h"
#include "partition/budget/price.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "passes/dce.h"
#include "passes/pass_list.h"

namespace antegrad::bench {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

/// A limit of 0 means none.
void measure(Bench& bench, const std::string& name, const Graph& joint, int rounds, double limit_ms,
             const std::optional<nlohmann::json>& theirs = {}) {
  const auto time_ms = [&](const auto& partition) {
    std::vector<Graph> copies(static_cast<size_t>(rounds) + 1, joint);
    size_t next = 0;
    return time_us(rounds, /*calls=*/1,
                   [&] { benchmark::DoNotOptimize(partition(std::move(copies[next++]))); }) /
           1e3;
  };
  const auto add = [&](const char* metric, double value, const char* unit, double limit,
                       const char* key = nullptr) {
    std::optional<Peer> peer;
    if (theirs && key != nullptr) {
      peer = Peer{"min_cut_rematerialization_partition", theirs->at(key).get<double>()};
    }
    bench.add({name, metric, value, unit, peer, limit > 0 ? std::optional(limit) : std::nullopt});
  };
  add("nodes", static_cast<double>(joint.nodes.size()), "", 0);
  add("default_ms", time_ms([](Graph graph) { return default_partition(std::move(graph)); }), "ms",
      0);
  add("min_cut_ms", time_ms([](Graph graph) { return min_cut_partition(std::move(graph)); }), "ms",
      limit_ms, "min_cut_ms");
  MinCutOptions aggressive;
  aggressive.aggressive_recomputation = true;
  add("min_cut_aggressive_ms",
      time_ms([&](Graph graph) { return min_cut_partition(std::move(graph), aggressive); }), "ms",
      limit_ms);
  const auto default_bytes = static_cast<double>(simulate(default_partition(joint)).saved_bytes);
  add("default_saved_mib", default_bytes / kMiB, "MiB", 0);
  add("min_cut_saved_mib",
      static_cast<double>(simulate(min_cut_partition(joint)).saved_bytes) / kMiB, "MiB",
      default_bytes / kMiB, "saved_mib");
}

/// Times the path from the graph to a forward and a backward at a budget halfway between the
/// smallest and the eager peak, and the sweep over prices in it.
void measure_budget(Bench& bench, const std::string& name, const Graph& joint, int rounds) {
  const auto add = [&](const char* metric, double limit, const auto& call) {
    bench.add({name, metric, time_us(rounds, /*calls=*/1, call) / 1e3, "ms", {}, limit});
  };
  std::vector<double> seconds = node_seconds(joint);
  const budget::Problem problem = budget::make_problem(joint, seconds);
  add("price_sweep_ms", 100, [&] {
    budget::PriceCuts cuts(problem);
    benchmark::DoNotOptimize(cuts.sweep(cuts.bytes()));
  });
  const auto plan = [&] {
    const budget::Planner planner(joint, seconds);
    const auto& frontier = planner.frontier();
    const int64_t budget = (frontier.archive.smallest().peak + frontier.eager_peak) / 2;
    benchmark::DoNotOptimize(planner.partition(planner.pick(budget)));
  };
  add("plan_for_budget_ms", 500, [&] {
    for (double& time : seconds) time += 1e-12;  // another problem: no cached frontier
    plan();
  });
  add("plan_again_ms", 50, plan);
}

void run(Bench& bench) {
  const auto gpt = [&](const char* name, const examples::GptConfig& config, int rounds,
                       double limit) {
    note(std::string(name) + ": AOTAutograd's partitioner");
    const auto theirs = run_peer("partition.py", peer_arguments(config));
    const Graph joint = run_joint_passes(capture_gpt(config).captured.joint, {});
    measure(bench, name, joint, bench.rounds(rounds), limit, theirs);
    return joint;
  };
  measure_budget(bench, "gpt12", gpt("gpt12", gpt12(), 100, 10), bench.rounds(10));
  // Narrow layers: only the number of nodes matters, and the layers must fit in memory.
  gpt("gpt120", {.vocabulary = 1000, .layers = 120, .width = 64, .heads = 4, .context = 32}, 20,
      200);
  for (const auto& [size, rounds, limit_ms] :
       {std::tuple{10'000, 20, 200.0}, std::tuple{100'000, 5, 5000.0}}) {
    const std::string suffix = "_" + std::to_string(size / 1000) + "k";
    const auto generated = [&](const char* name, const Graph& graph) {
      measure(bench, name + suffix, dce(graph), bench.rounds(rounds), limit_ms);
    };
    generated("nodes", generated_transformer(size));
    generated("fan_out", generated_fan_out(size));
    generated("chain", generated_chain(size));
  }
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("partition", argc, argv, antegrad::bench::run);
}
