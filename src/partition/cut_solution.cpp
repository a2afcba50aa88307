#include "partition/cut_solution.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <antegrad/error.h>

#include "graph/analysis.h"
#include "partition/max_flow.h"

namespace antegrad {
namespace {

constexpr int32_t kSource = 0;  // the forward: steps that are not recomputed
constexpr int32_t kSink = 1;    // the backward: values that must be available

/// The flow network. Each step has two vertices: one for running it in the backward, one for having
/// its result there. The edge between them is cut if the value is saved. Vertices whose side is
/// known are merged with that side, so that only open decisions remain.
class Network {
 public:
  Network(const StepGraph& steps, const Bans& bans, const std::vector<double>& weights)
      : steps_(steps), weights_(weights), run_(weights.size()), have_(weights.size()) {
    merge(bans);
    connect();
  }

  /// By step: whether its result is saved.
  std::vector<bool> cut() const {
    const FlowCut cut = minimum_cut(vertices_, edges_, kSource, kSink, NearestTo::sink);
    AG_CHECK(cut.capacity < kInfiniteCapacity,
             "a value that cannot be saved cannot be recomputed either");
    std::vector<bool> saved(run_.size());
    for (size_t i = 0; i < run_.size(); ++i) {
      saved[i] = cut.on_source_side[run_[i]] && !cut.on_source_side[have_[i]];
    }
    return saved;
  }

 private:
  /// Assigns vertices to steps, from the last to the first: if the backward certainly needs a value
  /// and must recompute it, it needs the inputs as well.
  void merge(const Bans& bans) {
    for (int32_t step = steps_.size(); step-- > 0;) {
      if (steps_[step].place == Place::backward) {
        run_[step] = have_[step] = kSink;
        continue;
      }
      const auto users = steps_.users(step);
      const bool needed = steps_[step].needed_at_end ||
                          std::ranges::any_of(users, [&](int32_t u) { return run_[u] == kSink; });
      have_[step] = needed ? kSink : vertices_++;
      if (!bans[step].empty()) {
        run_[step] = kSource;
      } else if (std::isinf(weights_[step])) {
        run_[step] = have_[step];
      } else {
        run_[step] = vertices_++;
      }
    }
  }

  void connect() {
    double total = 0;
    for (const double weight : weights_) total += std::isinf(weight) ? 0 : weight;
    // Sums must stay below infinity. Byte counts that large exceed any memory.
    const double largest = static_cast<double>(kInfiniteCapacity) / 2;
    const double scale = total < largest ? 1 : largest / total;
    for (int32_t step = 0; step < steps_.size(); ++step) {
      const double weight = weights_[step];
      add(run_[step], have_[step],
          std::isinf(weight) ? kInfiniteCapacity : static_cast<int64_t>(weight * scale));
      for (const int32_t user : steps_.users(step)) add(have_[step], run_[user], kInfiniteCapacity);
    }
  }

  void add(int32_t from, int32_t to, int64_t capacity) {
    // No flow goes back into the source or out of the sink. Edges between these two are decided.
    if (from == to || from == kSink || to == kSource) return;
    if (from == kSource && to == kSink && capacity < kInfiniteCapacity) return;
    edges_.push_back({from, to, capacity});
  }

  const StepGraph& steps_;
  const std::vector<double>& weights_;
  std::vector<int32_t> run_;   // by step
  std::vector<int32_t> have_;  // by step
  int32_t vertices_ = 2;
  std::vector<FlowEdge> edges_;
};

}  // namespace

/// The saved bytes that nothing else holds. A primal that the call overwrites is saved as a copy.
class SavedBytes {
 public:
  explicit SavedBytes(const StepGraph& steps)
      : steps_(steps), held_(steps.graph().values.size(), false) {
    for (const Input& input : steps.graph().inputs)
      held_[StorageId(input.value)] = !input.mutates_data;
    for (const Output& output : steps.graph().outputs) {
      if (handed_out(output.kind)) mark_storage(steps.graph(), output.value, held_);
    }
  }

  int64_t of(StorageId storage) const {
    return held_[storage] ? 0 : steps_.storage_bytes(ValueId(storage));
  }
  int64_t of(const IdMap<ValueId, bool>& saved) const {
    int64_t sum = 0;
    for (const ValueId id : saved.ids()) {
      if (saved[id]) sum += of(StorageId(id));
    }
    return sum;
  }

 private:
  const StepGraph& steps_;
  IdMap<StorageId, bool> held_;
};

namespace {

/// The values to save for these steps: the base of each view.
IdMap<ValueId, bool> storages(const StepGraph& steps, const std::vector<bool>& saved_steps) {
  IdMap<ValueId, bool> saved(steps.graph().values.size(), false);
  for (int32_t step = 0; step < steps.size(); ++step) {
    if (!saved_steps[step]) continue;
    saved[steps.graph().base(steps[step].value)] = true;
  }
  return saved;
}

/// The values that default_partition() saves.
IdMap<ValueId, bool> read_by_backward(const StepGraph& steps) {
  std::vector<bool> read(steps.size(), false);
  for (int32_t step = 0; step < steps.size(); ++step) {
    if (steps[step].place == Place::backward || steps[step].value == kNoValue) continue;
    const auto users = steps.users(step);
    read[step] = steps[step].needed_at_end || std::ranges::any_of(users, [&](int32_t user) {
                   return steps[user].place == Place::backward;
                 });
  }
  return storages(steps, read);
}

/// The reason of decisions that a budget made in place of a rule.
constexpr std::string_view kBudget = "memory_budget";

}  // namespace

CutSolution::CutSolution(const StepGraph& steps, const MinCutOptions& options,
                         const Lifting& lifting)
    : steps_(steps),
      bans_(ban_recomputation(steps, options)),
      weights_(bans_.size(), 0),
      weight_rules_(bans_.size()) {
  for (int32_t step = 0; step < steps_.size(); ++step) {
    if (steps_[step].place == Place::backward) continue;
    const Weight weight = weight_of_saving(steps_, options, step);
    weights_[step] = weight.bytes;
    weight_rules_[step] = weight.rule;
  }
  lift(options, lifting);
  cut();
  if (!options.never_more_than_default || lifting.all) return;
  const SavedBytes bytes(steps_);
  if (bytes.of(saved_) <= bytes.of(read_by_backward(steps_))) return;
  weigh_plainly(bytes);
  cut();
  undecided_ = "never_more_than_default";
}

void CutSolution::lift(const MinCutOptions& options, const Lifting& lifting) {
  if (!lifting.all && lifting.steps.empty()) return;
  lifted_.assign(bans_.size(), false);
  for (int32_t step = 0; step < steps_.size(); ++step) {
    if (bans_[step].empty() || (!lifting.all && !lifting.steps[step])) continue;
    if (!may_lift_ban(steps_, options, step)) continue;
    bans_[step] = {};
    lifted_[step] = true;
  }
  if (!lifting.all) return;
  // Nothing else is saved, even if it were smaller than its inputs.
  int32_t maker = -1;
  for (int32_t step = 0; step < steps_.size(); ++step) {
    if (!steps_[step].picks) maker = step;
    const bool must_be_saved = !bans_[step].empty() || !bans_[maker].empty();
    if (must_be_saved || steps_.input(step) || steps_[step].place == Place::backward) continue;
    if (std::isinf(weights_[step])) continue;
    weights_[step] = std::numeric_limits<double>::infinity();
    weight_rules_[step] = kBudget;
  }
}

void CutSolution::cut() {
  saved_steps_ = Network(steps_, bans_, weights_).cut();
  saved_ = storages(steps_, saved_steps_);
}

void CutSolution::weigh_plainly(const SavedBytes& bytes) {
  for (int32_t step = 0; step < steps_.size(); ++step) {
    double& weight = weights_[step];
    if (std::isinf(weight) || steps_[step].place == Place::backward) continue;
    const StorageId storage = steps_.graph().value(steps_[step].value).storage;
    weight = storage.valid() ? static_cast<double>(bytes.of(storage)) : 0;
    if (!steps_.is_view(step)) continue;
    weight = std::numeric_limits<double>::infinity();
    weight_rules_[step] = "view";
  }
}

IdMap<ValueId, bool> CutSolution::saved() const {
  IdMap<ValueId, bool> saved = saved_;
  for (const Node& node : steps_.graph().nodes) {
    if (!node.replayable()) continue;
    for (const ValueId token : node.token_inputs()) saved[token] = true;
  }
  return saved;
}

void CutSolution::tell_decisions(Partition& partition) const {
  for (const SavedSlot& saved : partition.plan.saved) {
    partition.decisions.push_back(decision(saved.value, /*saved=*/true));
  }
  for (const Node& node : partition.backward.nodes) {
    if (node.phase != Phase::forward) continue;
    for (const ValueId id : node.outputs) {
      // Skips tokens, unused values, and values that the split added.
      if (id == kNoValue || !saved_.contains(id) || steps_.of_value(id) < 0) continue;
      partition.decisions.push_back(decision(id, /*saved=*/false));
    }
  }
}

Decision CutSolution::decision(ValueId id, bool saved) const {
  const int32_t step = steps_.of_value(id);
  if (step < 0) return {id, saved, "generator_state"};
  // Outputs of a node with several are banned together with the step of the node, which precedes
  // the first of them.
  int32_t maker = step;
  while (steps_[maker].picks) --maker;
  std::string_view rule;
  if (saved) {
    rule = bans_[step].empty() ? bans_[maker] : bans_[step];
  } else if (!lifted_.empty() && lifted_[maker]) {
    rule = kBudget;
  } else if (std::isinf(weights_[step])) {
    rule = weight_rules_[step];
  }
  return {id, saved, rule.empty() ? undecided_ : rule};
}

}  // namespace antegrad
