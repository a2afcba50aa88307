// Quality of plans for byte budgets, and the time to find them. On joint graphs of PyTorch
// (tests/data/joint), compared with slow prototypes of the same search and with PyTorch's
// partitioner at the same peak. On graphs that were not used for tuning (tests/data/reference),
// compared with that partitioner only. Peaks are simulated; times come from the roofline of a GPU.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/harness.h"
#include "cost/machine.h"
#include "explain/import_json.h"
#include "graph/parse.h"
#include "gzip/gzip.h"
#include "partition/budget/frontier.h"
#include "partition/budget/simulator.h"
#include "passes/dce.h"

namespace antegrad::bench {
namespace {

using namespace budget;

constexpr double kMiB = 1024.0 * 1024.0;
const std::filesystem::path kData = ANTEGRAD_BENCH_DATA;

struct Answer {
  double at;        // MiB, or a share of the eager peak
  double over_pct;  // percentage of the step's time that the prototype added there
};

/// Results of the prototypes, in percent of the step's time: at the peaks of AOTAutograd's plans
/// and of a checkpoint around each block, and at shares of the eager peak. Also the smallest peak,
/// in MiB.
struct Goal {
  const char* graph;
  std::vector<Answer> at_peaks;
  std::vector<Answer> at_shares;
  double smallest;
};

const std::vector<Goal> kGoals = {
    {"gpt2_small",
     {{7625, 1.57}, {6399, 7.60}, {6375, 7.72}, {5052, 16.8}},
     {{.9, .84}, {.8, 2.23}, {.7, 6.77}, {.6, 11.4}},
     4740},
    {"llama8",
     {{2799, 2.88}, {2324, 8.43}, {2317, 8.53}, {1948, 13.5}},
     {{.9, .29}, {.8, 1.09}, {.7, 2.01}, {.6, 3.86}, {.5, 9.22}, {.4, 16.2}},
     1533},
    {"bert6",
     {{5477, 3.70}, {4709, 7.69}, {5226, 5.09}, {3054, 21.2}},
     {{.9, 1.04}, {.8, 2.06}, {.7, 3.48}, {.6, 7.55}, {.5, 12.8}, {.4, 20.2}},
     2881},
    {"gpt4_drop",
     {{1461, 2.55}, {1217, 7.93}, {1445, 2.83}, {864, 18.1}},
     {{.9, 1.16}, {.8, 2.43}, {.7, 6.09}, {.6, 10.4}, {.5, 15.2}},
     772},
    {"mlp24",
     {{1808, 1.85}, {1968, 1.47}, {984, 9.81}},
     {{.9, .62}, {.8, 1.23}, {.7, 2.05}, {.6, 3.78}, {.5, 5.60}, {.4, 8.43}, {.3, 19.3}},
     528},
    {"resnet50",
     {{1566, 6.07}, {1468, 7.04}, {1000, 13.0}},
     {{.9, .91}, {.8, 1.93}, {.7, 3.39}, {.6, 5.89}, {.5, 8.60}, {.4, 12.0}, {.3, 17.0}},
     514},
    {"unet",
     {{382, 2.76}, {240, 6.40}, {233, 6.77}, {250, 6.05}},
     {{.9, .88}, {.8, 1.85}, {.7, 2.89}, {.6, 4.01}, {.5, 5.32}, {.4, 7.97}, {.3, 19.3}},
     136},
    {"lstm64",
     {{155, 3.31}, {186, 0}, {110, 17.6}},
     {{.9, 2.01}, {.8, 5.53}, {.7, 11.6}, {.6, 17.0}, {.5, 23.2}},
     79},
};

struct EffortName {
  BudgetEffort effort;
  const char* name;
  double points;  // percentage points by which answers may exceed those of the prototypes
};
constexpr EffortName kEfforts[] = {{BudgetEffort::quick, "quick", 1.0},
                                   {BudgetEffort::thorough, "thorough", 0.3}};

/// A partition chosen by AOTAutograd.
struct Cut {
  std::string name;
  std::vector<ValueId> saved;
};

struct Joint {
  Graph graph;
  std::vector<Cut> reference;
};

Joint exported(const std::string& name) {
  const std::string file = (kData / "joint" / (name + ".json.gz")).string();
  ImportedGraph imported = import_json(read_maybe_gzipped(file), file);
  Joint joint{dce(std::move(imported.graph)), {}};
  for (auto& [budget, saved] : imported.reference) joint.reference.push_back({budget, saved});
  return joint;
}

Joint recorded(const std::filesystem::path& file) {
  Joint joint{dce(parse_graph(read_maybe_gzipped(file.string()), file.string())), {}};
  std::filesystem::path cuts = file;
  const auto json =
      nlohmann::json::parse(read_maybe_gzipped(cuts.replace_extension(".saved.json").string()));
  for (const auto& partition : json.at("partitions")) {
    Cut cut{fmt::format("cut{}", joint.reference.size()), {}};
    for (const auto& [name, value] : partition.at("saved").items()) {
      cut.saved.push_back(value.get<ValueId>());
    }
    joint.reference.push_back(std::move(cut));
  }
  return joint;
}

Problem problem_of(const Graph& graph) {
  ByteRules rules;
  rules.granule = 1;
  return make_problem(graph, node_seconds(graph, {}, "gpu"), rules);
}

class Case {
 public:
  Case(Bench& bench, std::string name, const Joint& joint, const EffortName& effort)
      : bench_(bench),
        name_(std::move(name)),
        joint_(joint),
        effort_(effort),
        problem_(problem_of(joint.graph)) {
    const examples::Stopwatch watch;
    frontier_ = build_frontier(problem_, {effort.effort, {}});
    add("", "ms", watch.milliseconds(), "ms");
    add("", "plans", static_cast<double>(frontier_.measured), "");
  }

  void compare(const Goal& goal) {
    for (const Answer& answer : goal.at_peaks) {
      // The peaks were recorded in whole MiB.
      compare(answer, (answer.at + 0.5) * kMiB, answer.over_pct + effort_.points);
    }
    for (const Answer& answer : goal.at_shares) {
      compare(answer, answer.at * static_cast<double>(frontier_.eager_peak), {});
    }
    std::optional<double> limit;
    if (effort_.effort == BudgetEffort::thorough) limit = 1.02 * goal.smallest;
    add("", "smallest_mib", static_cast<double>(frontier_.archive.smallest().peak) / kMiB, "MiB",
        limit, goal.smallest);
  }

  void compare_with_reference() {
    Simulator simulator(problem_);
    for (const Cut& cut : joint_.reference) {
      IdMap<ValueId, bool> saved(joint_.graph.values.size(), false);
      for (const ValueId id : cut.saved) saved[joint_.graph.base(id)] = true;
      Plan plan(problem_.values.size(), kRecompute);
      for (size_t v = 0; v < plan.size(); ++v) {
        if (saved[problem_.values[v].id]) plan[v] = kSave;
      }
      const Measure theirs = simulator.set(plan);
      const double over = share(theirs.extra);
      const double ours = over_pct(frontier_.archive.at_most(theirs.peak));
      bench_.add(
          {fmt::format("{}@{:.1f}MiB_{}", name_, static_cast<double>(theirs.peak) / kMiB, cut.name),
           std::string(effort_.name) + "_over_pct", ours, "%", Peer{"AOTAutograd", over},
           over + 1e-9});
    }
  }

 private:
  double share(int64_t extra) const {
    return 100 * static_cast<double>(extra) / static_cast<double>(problem_.time);
  }
  double over_pct(const std::optional<PlanPoint>& point) const {
    return point ? share(point->extra) : std::numeric_limits<double>::infinity();
  }
  void compare(const Answer& wanted, double peak, std::optional<double> limit) {
    add(fmt::format("@{}", wanted.at), "over_pct",
        over_pct(frontier_.archive.at_most(std::llround(peak))), "%", limit, wanted.over_pct);
  }
  void add(const std::string& at, const char* metric, double value, const char* unit,
           std::optional<double> limit = {}, std::optional<double> prototype = {}) {
    std::optional<Peer> peer;
    if (prototype) peer = Peer{"prototype", *prototype};
    bench_.add({name_ + at, fmt::format("{}_{}", effort_.name, metric), value, unit, peer, limit});
  }

  Bench& bench_;
  std::string name_;
  const Joint& joint_;
  const EffortName& effort_;
  Problem problem_;
  Frontier frontier_;
};

void run(Bench& bench) {
  for (const Goal& goal : kGoals) {
    const Joint joint = exported(goal.graph);
    for (const EffortName& effort : kEfforts) {
      Case measured(bench, goal.graph, joint, effort);
      measured.compare(goal);
      measured.compare_with_reference();
    }
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kData / "reference")) {
    if (entry.path().extension() == ".agraph") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const Joint joint = recorded(file);
    for (const EffortName& effort : kEfforts) {
      Case(bench, "untuned_" + file.stem().string(), joint, effort).compare_with_reference();
    }
  }
}

}  // namespace
}  // namespace antegrad::bench

int main(int argc, char** argv) {
  return antegrad::bench::run_bench("frontier", argc, argv, antegrad::bench::run);
}
