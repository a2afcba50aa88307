#include "partition/steps.h"

#include <algorithm>

#include "fusion/fusing.h"

namespace antegrad {
namespace {

constexpr int64_t kSymbolGuess = 4096;
const OpTraits kNoTraits;

}  // namespace

StepGraph::StepGraph(const Graph& graph, const std::vector<int64_t>& symbols,
                     const std::optional<std::vector<std::string>>& recomputable_ops)
    : graph_(graph), tags_(graph), symbols_(symbols) {
  symbols_.resize(std::max(symbols.size(), graph.symbols.size()), kSymbolGuess);
  make_steps();
  classify(recomputable_ops);
  place();
  link();
  measure();
}

void StepGraph::make_steps() {
  const IdMap<ValueId, int32_t> last_use = last_uses(graph_, Uses::by_nodes_and_outputs);
  step_of_.assign(graph_.values.size(), -1);
  const auto add = [&](ValueId value, int32_t node, bool picks) {
    Step step;
    step.value = value;
    step.node = node;
    step.picks = picks;
    if (value != kNoValue) step_of_[value] = size();
    steps_.push_back(step);
  };
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const ValueId id = graph_.inputs[i].value;
    if (graph_.value(id).kind == ValueKind::token) continue;
    add(id, -1, false);
    steps_.back().input = static_cast<int32_t>(i);
  }
  step_of_node_.reserve(graph_.nodes.size());
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const auto node = static_cast<int32_t>(i);
    const std::span<const ValueId> made = graph_.nodes[i].results();
    step_of_node_.push_back(size());
    if (made.size() == 1 && made[0] != kNoValue) {
      add(made[0], node, false);
      continue;
    }
    add(kNoValue, node, false);
    for (const ValueId id : made) {
      if (id != kNoValue && last_use[id] >= 0) add(id, node, true);
    }
  }
  for (const Output& output : graph_.outputs) {
    if (output.value == kNoValue || of_value(output.value) < 0) continue;
    Step& step = steps_[of_value(output.value)];
    step.graph_output = true;
    step.needed_at_end = step.needed_at_end || output.kind == OutputKind::gradient;
  }
}

void StepGraph::classify(const std::optional<std::vector<std::string>>& recomputable_ops) {
  const auto is_named = [&](const std::string& name) {
    return std::ranges::find(*recomputable_ops, name) != recomputable_ops->end();
  };
  for (Step& step : steps_) {
    if (step.node < 0) continue;
    const OpInfo& op = graph_.nodes[step.node].op.info();
    const bool generated = fusing_of(op.traits).generated;
    const bool in_list = recomputable_ops ? is_named(op.base_name) : generated;
    step.recomputable = op.traits.view || in_list;
    // An output of a node with several is materialised already, and can be read from any loop.
    step.fusible = step.picks || step.recomputable || (op.traits.random && generated);
  }
}

void StepGraph::place() {
  IdMap<ValueId, bool> needed = output_values(graph_, of_forward);
  const std::vector<bool> for_results = needed_nodes(graph_, needed, [&](int32_t i) {
    const Node& node = graph_.nodes[i];
    return any_marked(node.results(), needed) ||
           (node.phase == Phase::forward && node.must_run_once());
  });
  for (const Input& input : graph_.inputs) {
    const int32_t step = of_value(input.value);
    if (step < 0 || input.kind == InputKind::tangent) continue;
    steps_[step].place = needed[input.value] ? Place::forward : Place::either;
  }
  for (Step& step : steps_) {
    if (step.node < 0) continue;
    const bool in_forward = graph_.nodes[step.node].phase == Phase::forward;
    step.place = for_results[step.node] ? Place::forward
                 : in_forward           ? Place::either
                                        : Place::backward;
    // Results may need only some outputs of a node.
    if (step.picks && step.place == Place::forward && !needed[step.value]) {
      step.place = Place::either;
    }
  }
}

void StepGraph::link() {
  Rows reads;  // by step: steps whose results it uses
  std::vector<int32_t> last_user(steps_.size(), -1);
  const auto add = [&](int32_t made, int32_t user) {
    if (made < 0 || last_user[made] == user) return;
    last_user[made] = user;
    reads.add(made);
  };
  for (int32_t step = 0; step < size(); ++step) {
    const int32_t node = steps_[step].node;
    if (steps_[step].picks) {
      add(step_of_node_[node], step);
    } else if (node >= 0) {
      for (const ValueId id : graph_.nodes[node].inputs) add(of_value(id), step);
    }
    reads.end_row();
  }
  users_ = reads.transposed(size());
}

void StepGraph::measure() {
  int32_t order = 0;
  for (Step& step : steps_) {
    if (step.place == Place::forward) step.order = order++;
  }
  for (int32_t i = size(); i-- > 0;) {
    Step& step = steps_[i];
    if (step.place != Place::forward) continue;
    step.distance = kNeverRead;
    for (const int32_t user : users(i)) {
      step.distance = std::min(step.distance, steps_[user].distance + 1);
    }
  }
}

const Node* StepGraph::node(int32_t step) const {
  const int32_t position = steps_[step].node;
  return position < 0 ? nullptr : &graph_.nodes[position];
}

const Input* StepGraph::input(int32_t step) const {
  const int32_t position = steps_[step].input;
  return position < 0 ? nullptr : &graph_.inputs[position];
}

const OpTraits& StepGraph::traits(int32_t step) const {
  const Node* made_by = node(step);
  return made_by ? made_by->op.traits() : kNoTraits;
}

bool StepGraph::fusible(int32_t made, int32_t user) const {
  const auto of_step = [&](int32_t step) {
    return Fusing{steps_[step].fusible, !steps_[step].picks && fusing_of(traits(step)).takes_any};
  };
  return may_fuse(of_step(made), of_step(user));
}

int64_t StepGraph::bytes(ValueId id) const {
  const Value& value = graph_.value(id);
  if (value.kind != ValueKind::tensor) return 0;
  return numel(value.meta).evaluate(symbols_) * byte_size(value.meta.dtype);
}

int64_t StepGraph::bytes_made(int32_t step) const {
  int64_t sum = 0;
  for (const ValueId id : node(step)->outputs) sum += id == kNoValue ? 0 : bytes(id);
  return sum;
}

int64_t StepGraph::storage_bytes(ValueId id) const {
  const Value& value = graph_.value(id);
  if (value.kind != ValueKind::tensor) return 0;
  return span_bytes(graph_.value(graph_.base(id)).meta).evaluate(symbols_);
}

}  // namespace antegrad
