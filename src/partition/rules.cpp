#include "partition/rules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <queue>
#include <span>
#include <utility>

namespace antegrad {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// An output is too small to recompute if the inputs are this many times larger.
constexpr int64_t kMuchSmaller = 4;
/// The longest chain of fusible steps, counted in steps of the forward.
constexpr int32_t kLongChain = 100;
constexpr double kPerStep = 1.1;
constexpr int32_t kMostSteps = 100;

using Steps = const StepGraph&;
using Options = const MinCutOptions&;

/// Turns a rule on: an option, or always; possibly not with aggressive recomputation.
struct Switch {
  bool MinCutOptions::*option = nullptr;
  bool unless_aggressive = false;

  bool is_on(Options options) const {
    return (!option || options.*option) && !(unless_aggressive && options.aggressive_recomputation);
  }
};
constexpr Switch kAlways;

// --- what a step is -----------------------------------------------------------------------------

/// Lives as long as the model, and so is in memory whether the backward reads it or not, unless the
/// call frees it. If the call overwrites it, the backward would need a copy.
bool is_held_by_model(Steps steps, int32_t step) {
  const Input* input = steps.input(step);
  if (!input || input->mutates_data || input->storage != InputStorage::kept) return false;
  using enum Source::Kind;
  return input->source.kind == parameter || input->source.kind == buffer ||
         input->source.kind == constant;
}

/// A cast of a tensor held by the model to a smaller dtype, used only in the call.
bool is_low_precision_weight(Steps steps, int32_t step) {
  const Node* node = steps.node(step);
  if (!node || steps[step].value == kNoValue || steps[step].graph_output) return false;
  const OpTraits& traits = node->op.traits();
  if (!traits.pointwise || !traits.no_op_when_same_meta || node->inputs.size() != 1) return false;
  const Value& from = steps.graph().value(node->inputs[0]);
  const Value& to = steps.graph().value(steps[step].value);
  return from.kind == ValueKind::tensor && from.storage.valid() &&
         byte_size(to.meta.dtype) < byte_size(from.meta.dtype) &&
         is_held_by_model(steps, steps.of_value(ValueId(from.storage)));
}

/// The backward reads it, or a view of it, in a node that it is not fusible with. It is then
/// materialised there, so recomputing it is not free.
bool is_materialized_in_backward(Steps steps, int32_t step) {
  std::vector<int32_t> shown = {step};
  while (!shown.empty()) {
    const int32_t current = shown.back();
    shown.pop_back();
    if (steps[current].graph_output) return true;
    for (const int32_t user : steps.users(current)) {
      if (!steps.in_forward(user) && !steps.fusible(current, user)) return true;
      if (steps.is_view(user)) shown.push_back(user);
    }
  }
  return false;
}

bool is_much_smaller_than_inputs(Steps steps, int32_t step) {
  const Node& node = *steps.node(step);
  int64_t read = 0;
  for (const ValueId id : node.inputs) read += steps.bytes(id);
  return steps.bytes_made(step) * kMuchSmaller < read;
}

/// Materialised in the forward, saved or not.
bool is_materialized(Steps steps, int32_t step) {
  if (steps.input(step) || steps[step].graph_output) return true;
  const auto users = steps.users(step);
  return !std::ranges::all_of(users, [&](int32_t user) { return steps.fusible(step, user); });
}

bool runs_again_by_tag(const Node& node) {
  return node.recompute == Recompute::must_recompute ||
         node.recompute == Recompute::prefer_recompute;
}

/// An output of a checkpoint: the nodes after the checkpoint start from it.
bool leaves_checkpoint(Steps steps, Options, int32_t step) {
  const Node& node = *steps.node(step);
  return node.recompute == Recompute::must_recompute &&
         std::ranges::none_of(node.outputs, [&](ValueId id) {
           return id != kNoValue && steps.tags().is_interior(id);
         });
}

/// A random operator without a token draws nothing (Node::draws_nothing).
bool draws(Steps steps, Options, int32_t step) {
  return steps.traits(step).random && steps.node(step)->tokens > 0;
}

/// A draw whose result is smaller than the generator state that repeating it requires.
bool is_smaller_than_state(Steps steps, Options options, int32_t step) {
  return draws(steps, options, step) && steps.bytes_made(step) < kGeneratorStateBytes;
}

// --- bans of single steps -----------------------------------------------------------------------

struct StepBan {
  std::string_view name;
  Switch on;
  bool (*applies)(Steps, Options, int32_t step);
  bool lifted_by_budget = false;
};

/// Recomputation would give other results or repeat an effect, or a checkpoint forbids it.
constexpr StepBan kFirmBans[] = {
    {"effect", kAlways,
     [](Steps steps, Options, int32_t step) {
       const Node& node = *steps.node(step);
       const OpTraits& traits = node.op.traits();
       return traits.effect || traits.mutates || (node.tokens > 0 && !node.replayable());
     }},
    {"collective", kAlways,
     [](Steps steps, Options, int32_t step) {
       return steps.traits(step).collective && !steps.traits(step).agreed;
     }},
    {"nondeterministic", kAlways,
     [](Steps steps, Options, int32_t step) { return !steps.node(step)->repeatable(); }},
    {"must_save", kAlways,
     [](Steps steps, Options, int32_t step) {
       return steps.node(step)->recompute == Recompute::must_save;
     }},
    {"prefer_save", kAlways,
     [](Steps steps, Options, int32_t step) {
       return steps.node(step)->recompute == Recompute::prefer_save;
     },
     /*lifted_by_budget=*/true},
    {"leaves_checkpoint", kAlways, leaves_checkpoint},
};

/// Recomputation would cost time or memory. Only for nodes about which no checkpoint decides.
constexpr StepBan kWeighedBans[] = {
    {"unknown_operator", kAlways,
     [](Steps steps, Options, int32_t step) {
       return !steps.traits(step).known && !steps[step].recomputable;
     }},
    {"random",
     {&MinCutOptions::ban_recompute_random},
     draws,
     /*lifted_by_budget=*/true},
    {"small_random", kAlways, is_smaller_than_state},
    {"compute_intensive",
     {&MinCutOptions::ban_recompute_compute_intensive},
     [](Steps steps, Options, int32_t step) { return steps.traits(step).compute_intensive; },
     /*lifted_by_budget=*/true},
    {"not_in_allowlist",
     {&MinCutOptions::ban_recompute_not_in_allowlist, /*unless_aggressive=*/true},
     [](Steps steps, Options, int32_t step) { return !steps[step].recomputable; },
     /*lifted_by_budget=*/true},
    {"materialized_backward",
     {&MinCutOptions::ban_recompute_materialized_backward, /*unless_aggressive=*/true},
     [](Steps steps, Options, int32_t step) { return is_materialized_in_backward(steps, step); },
     /*lifted_by_budget=*/true},
    // With checkpoints neither of the next two applies, as in AOTAutograd.
    {"max_dist_from_bw", kAlways,
     [](Steps steps, Options options, int32_t step) {
       // Beyond a thousand steps there is no ban, as in AOTAutograd.
       return !steps.tags().any() && steps[step].distance < 1000 &&
              steps[step].distance > options.max_dist_from_bw;
     },
     /*lifted_by_budget=*/true},
    {"reductions",
     {&MinCutOptions::ban_recompute_reductions},
     [](Steps steps, Options, int32_t step) {
       return !steps.tags().any() && is_much_smaller_than_inputs(steps, step);
     },
     /*lifted_by_budget=*/true},
};

/// Steps exempt from all but firm rules: a checkpoint recomputes them, they cost nothing, or saving
/// them costs as much as saving others.
bool is_exempt(Steps steps, Options options, int32_t step) {
  return steps.is_view(step) || (steps.node(step) && runs_again_by_tag(*steps.node(step))) ||
         (options.recompute_low_precision_weights && is_low_precision_weight(steps, step));
}

std::string_view ban_of(Steps steps, Options options, int32_t step) {
  if (steps.input(step)) return steps[step].place == Place::backward ? "" : "input";
  // A node that only gradients need can move into the backward, and then does not run twice.
  if (!steps.in_forward(step) || steps[step].picks || steps.is_view(step)) return "";
  const auto name_of = [&](std::span<const StepBan> bans) -> std::string_view {
    for (const StepBan& ban : bans) {
      if (ban.on.is_on(options) && ban.applies(steps, options, step)) return ban.name;
    }
    return "";
  };
  const std::string_view firm = name_of(kFirmBans);
  if (!firm.empty() || is_exempt(steps, options, step)) return firm;
  return name_of(kWeighedBans);
}

// --- bans that look at the whole forward --------------------------------------------------------

/// Bans a value that is read early and, after a node that is not fusible, again much later.
/// Recomputing it for the later reader would prevent fusing the two readers.
void ban_used_far_apart(Steps steps, Options options, std::string_view name, Bans& bans) {
  // By step: the first step of the forward after it that is not fusible with the chain that leads
  // to it.
  std::vector<int32_t> barrier(steps.size(), kNeverRead);
  for (int32_t step = steps.size(); step-- > 0;) {
    for (const int32_t user : steps.users(step)) {
      if (!steps.in_forward(user)) continue;
      const int32_t found = steps.fusible(step, user) ? barrier[user] : steps[user].order;
      barrier[step] = std::min(barrier[step], found);
    }
  }
  for (int32_t step = 0; step < steps.size(); ++step) {
    if (!steps.in_forward(step)) continue;
    int32_t first_barrier = kNeverRead;
    for (const int32_t user : steps.users(step)) {
      if (steps.in_forward(user)) first_barrier = std::min(first_barrier, barrier[user]);
    }
    for (const int32_t user : steps.users(step)) {
      if (steps.in_forward(user) && steps[user].order > first_barrier &&
          steps.fusible(step, user) && bans[user].empty() && !is_exempt(steps, options, user)) {
        bans[user] = name;
      }
    }
  }
}

/// Cuts long chains of fusible steps, such as residual connections. Recomputing them would start at
/// the beginning of the model.
void ban_long_fusible_chains(Steps steps, Options options, std::string_view name, Bans& bans) {
  std::vector<bool> visited(steps.size(), false);
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> chain;
  for (int32_t start = 0; start < steps.size(); ++start) {
    if (!steps.in_forward(start)) continue;
    chain.push(start);
    while (!chain.empty()) {
      const int32_t current = chain.top();
      chain.pop();
      if (visited[current]) continue;
      visited[current] = true;
      if (steps[current].order > steps[start].order + kLongChain && chain.empty()) {
        if (bans[current].empty() && !is_exempt(steps, options, current)) bans[current] = name;
        break;
      }
      for (const int32_t user : steps.users(current)) {
        if (steps.in_forward(user) && steps.fusible(current, user) && bans[user].empty()) {
          chain.push(user);
        }
      }
    }
  }
}

struct ForwardBan {
  std::string_view name;
  Switch on;
  void (*apply)(Steps, Options, std::string_view name, Bans&);
};

constexpr ForwardBan kForwardBans[] = {
    {"used_far_apart",
     {&MinCutOptions::ban_recompute_used_far_apart, /*unless_aggressive=*/true},
     ban_used_far_apart},
    {"long_fusible_chains",
     {&MinCutOptions::ban_recompute_long_fusible_chains, /*unless_aggressive=*/true},
     ban_long_fusible_chains},
};

// --- weights ------------------------------------------------------------------------------------

double weighed_bytes(Steps steps, Options options, int32_t step) {
  const ValueId id = steps[step].value;
  auto bytes = static_cast<double>(steps.is_view(step) ? steps.bytes(id) : steps.storage_bytes(id));
  if (options.distance_weighting) {
    // Steps closer to the backward are cheaper to save, since fewer nodes are then recomputed.
    bytes = std::floor(bytes * std::pow(kPerStep, std::clamp(steps[step].distance, 1, kMostSteps)));
  }
  return options.double_unmaterialized && !is_materialized(steps, step) ? bytes * 2 : bytes;
}

struct WeightRule {
  std::string_view name;
  bool (*applies)(Steps, Options, int32_t step);
  double (*weight)(Steps, Options, int32_t step);
};

ValueKind kind_of(Steps steps, int32_t step) { return steps.graph().value(steps[step].value).kind; }

double infinite(Steps, Options, int32_t) { return kInfinite; }

constexpr WeightRule kWeightRules[] = {
    {"several_outputs",
     [](Steps steps, Options, int32_t step) { return steps[step].value == kNoValue; }, infinite},
    {"integer",
     [](Steps steps, Options, int32_t step) { return kind_of(steps, step) == ValueKind::integer; },
     [](Steps, Options, int32_t) { return 1.0; }},
    {"floating",
     [](Steps steps, Options, int32_t step) { return kind_of(steps, step) == ValueKind::floating; },
     [](Steps, Options, int32_t) { return 4.0; }},
    {"must_recompute",
     [](Steps steps, Options, int32_t step) {
       // A view is saved as its base.
       return steps.tags().is_interior(steps.graph().base(steps[step].value));
     },
     infinite},
    {"view",
     [](Steps steps, Options options, int32_t step) {
       return options.recompute_views && steps.is_view(step);
     },
     infinite},
    {"low_precision_weight",
     [](Steps steps, Options options, int32_t step) {
       return options.recompute_low_precision_weights && is_low_precision_weight(steps, step);
     },
     infinite},
    {"parameter",
     [](Steps steps, Options options, int32_t step) {
       const StorageId storage = steps.graph().value(steps[step].value).storage;
       return options.treat_parameters_as_free_to_save &&
              is_held_by_model(steps, steps.of_value(ValueId(storage)));
     },
     [](Steps, Options, int32_t) { return 0.0; }},
    {"bytes", [](Steps, Options, int32_t) { return true; }, weighed_bytes},  // the default, last
};

}  // namespace

Bans ban_recomputation(const StepGraph& steps, const MinCutOptions& options) {
  Bans bans(steps.size());
  for (int32_t step = 0; step < steps.size(); ++step) bans[step] = ban_of(steps, options, step);
  for (const ForwardBan& ban : kForwardBans) {
    if (ban.on.is_on(options)) ban.apply(steps, options, ban.name, bans);
  }
  return bans;
}

bool may_lift_ban(const StepGraph& steps, const MinCutOptions& options, int32_t step) {
  if (!steps.in_forward(step) || steps.input(step)) return false;
  const auto is_held = [&](std::span<const StepBan> bans) {
    return std::ranges::any_of(bans, [&](const StepBan& ban) {
      return !ban.lifted_by_budget && ban.on.is_on(options) && ban.applies(steps, options, step);
    });
  };
  return !is_held(kFirmBans) && !is_held(kWeighedBans);
}

Weight weight_of_saving(const StepGraph& steps, const MinCutOptions& options, int32_t step) {
  const WeightRule* rule = std::find_if(
      std::begin(kWeightRules), std::end(kWeightRules) - 1,
      [&](const WeightRule& candidate) { return candidate.applies(steps, options, step); });
  return {rule->weight(steps, options, step), rule->name};
}

}  // namespace antegrad
