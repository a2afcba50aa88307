#include "fusion/fused_nodes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "cost/machine.h"
#include "fusion/fusing.h"
#include "fusion/loops.h"
#include "graph/analysis.h"

namespace antegrad {
namespace {

class FusedNodes {
 public:
  FusedNodes(const Graph& joint, const std::vector<int64_t>& symbols)
      : joint_(joint), maker_(joint.values.size(), -1), fused_(joint.nodes.size()) {
    for (size_t i = 0; i < joint.nodes.size(); ++i) {
      const Node& node = joint.nodes[i];
      loops_.push_back(loops_of(joint, node, symbols));
      fused_[i] = loops_[i].has_value();
      const bool shows = only_shows(joint, node);
      for (const ValueId id : node.outputs) {
        if (id != kNoValue) maker_[id] = shows ? maker_[node.inputs[0]] : static_cast<int32_t>(i);
      }
      if (shows) continue;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const int32_t maker = maker_[node.inputs[k]];
        if (maker >= 0 && fused_[maker] && !fuses(maker, node, k)) fused_[maker] = false;
      }
    }
    for (const Output& output : joint.outputs) {
      const int32_t maker = output.value == kNoValue ? -1 : maker_[output.value];
      if (maker >= 0) fused_[maker] = false;
    }
    drop_long_lives();
  }

  /// By position.
  const std::vector<bool>& fused() const { return fused_; }

 private:
  /// Whether a node, the last one that has loops, can read its input where that is computed.
  bool fuses(int32_t maker, const Node& reader, size_t input) const {
    const Fusing made = fusing_of(joint_.nodes[maker].op.traits());
    const OpTraits& traits = reader.op.traits();
    if (joint_.value(reader.inputs[input]).kind != ValueKind::tensor) return false;
    if (!may_fuse(made, fusing_of(traits)) || (traits.gathers && input == 0)) return false;
    if (traits.fuses_inputs) return true;
    const std::optional<Loops>& loops = loops_.back();
    return loops &&
           (common_loops(*loops_[maker], *loops, false) || broadcasts_into(*loops_[maker], *loops));
  }

  /// A result that outlives an input within its phase is kept in memory, as its inputs are not.
  /// Lives are counted in kernels that are not generated.
  void drop_long_lives() {
    constexpr auto kForever = std::numeric_limits<int32_t>::max();
    std::map<Phase, IdMap<StorageId, int32_t>> last;
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      last[phase] = IdMap<StorageId, int32_t>(joint_.values.size(), -1);
      for (const Input& input : joint_.inputs) last[phase][StorageId(input.value)] = kForever;
    }
    const auto tensor = [&](ValueId id) { return id != kNoValue && joint_.is_tensor(id); };
    int32_t kernel = 0;
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      const Node& node = joint_.nodes[i];
      for (const auto* ids : {&node.inputs, &node.outputs}) {
        for (const ValueId id : *ids) {
          if (!tensor(id)) continue;
          int32_t& when = last[node.phase][joint_.value(id).storage];
          when = std::max(when, kernel);
        }
      }
      if (!loops_[i] && !node.op.traits().view) ++kernel;
    }
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      const Node& node = joint_.nodes[i];
      int32_t needed = -1;
      for (const ValueId id : node.outputs) {
        if (tensor(id)) needed = std::max(needed, last[node.phase][joint_.value(id).storage]);
      }
      for (const ValueId id : node.inputs) {
        if (tensor(id) && last[node.phase][joint_.value(id).storage] < needed) fused_[i] = false;
      }
    }
  }

  const Graph& joint_;
  IdMap<ValueId, int32_t> maker_;  // position of the node, through views; -1: an input
  std::vector<std::optional<Loops>> loops_;
  std::vector<bool> fused_;
};

/// The cost without memory traffic of fused values.
NodeCost cost_among_fused(const Graph& joint, const Node& node, const IdMap<ValueId, bool>& fused,
                          const std::vector<int64_t>& symbols) {
  NodeCost cost = node_cost(joint, node, symbols);
  if (!node.op.traits().reads_data) return cost;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    const auto here = node.inputs.begin() + static_cast<std::ptrdiff_t>(i);
    if (!fused[id] || std::find(node.inputs.begin(), here, id) != here) continue;
    cost.bytes = std::max<int64_t>(0, cost.bytes - moved_bytes(joint.value(id), symbols));
  }
  return cost;
}

/// Of computing the results of a node without moving them. Only functions and draws take longer
/// than the arithmetic that memory hides.
double computing_seconds(const Graph& joint, const Node& node, const Machine& on,
                         const std::vector<int64_t>& symbols) {
  const auto classes = kernel_classes(joint, node);
  if (classes.empty() || node.outputs.empty() || node.outputs[0] == kNoValue) return 0;
  const auto kind = classes.front().first.kind;
  const bool draws = kind == KernelKind::draw;
  if (!draws && kind != KernelKind::transcendental) return 0;
  const Value& result = joint.value(node.outputs[0]);
  const auto elements = moved_bytes(result, symbols) / byte_size(result.meta.dtype);
  return static_cast<double>(elements) / (draws ? on.draws_per_second : on.functions_per_second);
}

}  // namespace

std::vector<bool> fused_nodes(const Graph& joint, const std::vector<int64_t>& symbols) {
  const FusedNodes found(joint, symbols);
  std::vector<bool> by_id;
  for (size_t i = 0; i < joint.nodes.size(); ++i) {
    if (!found.fused()[i]) continue;
    const auto id = static_cast<size_t>(joint.nodes[i].id);
    by_id.resize(std::max(by_id.size(), id + 1), false);
    by_id[id] = true;
  }
  return by_id;
}

std::vector<double> fused_seconds(const Graph& joint, const std::vector<bool>& fused,
                                  std::string_view machine, const std::vector<int64_t>& symbols) {
  const Machine& on = machine_named(machine);
  IdMap<ValueId, bool> in_registers(joint.values.size(), false);
  std::vector<double> by_id;
  for (const Node& node : joint.nodes) {
    const bool shows = only_shows(joint, node);
    for (const ValueId id : node.outputs) {
      if (id != kNoValue)
        in_registers[id] = shows ? in_registers[node.inputs[0]] : is_flagged(node.id, fused);
    }
    const auto id = static_cast<size_t>(node.id);
    by_id.resize(std::max(by_id.size(), id + 1), -1);
    if (is_flagged(node.id, fused)) {
      NodeCost cost = node_cost(joint, node, symbols);
      if (!node.op.traits().reduction) cost.bytes = 0;
      by_id[id] = roofline(cost, on);
    } else {
      by_id[id] = seconds(cost_among_fused(joint, node, in_registers, symbols), on);
    }
    by_id[id] = std::max(by_id[id], computing_seconds(joint, node, on, symbols));
  }
  return by_id;
}

}  // namespace antegrad
