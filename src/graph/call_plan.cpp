#include "graph/call_plan.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include <antegrad/error.h>

#include "graph/analysis.h"

namespace antegrad {
namespace {

using Form = SavedSlot::Form;

/// Whether the backward reads a value other than through views of it.
IdMap<ValueId, bool> read_directly(const Graph& backward) {
  IdMap<ValueId, bool> read = output_values(backward);
  for (const Node& node : backward.nodes) {
    if (node.op.traits().view) continue;
    for (const ValueId input : node.inputs) read[input] = true;
  }
  return read;
}

class CallPlanner {
 public:
  CallPlanner(const Graph& forward, const Graph& backward)
      : forward_(forward), backward_(backward), owners_(storage_owners(forward)) {}

  CallPlan plan() {
    read_inputs();
    read_outputs();
    stage_statistics();
    read_saved();
    for (const Output& output : backward_.outputs) {
      if (output.kind != OutputKind::gradient) continue;
      plan_.gradients.push_back(output.index);
      if (output.update) plan_.updates.push_back(output.index);
    }
    return std::move(plan_);
  }

 private:
  void read_inputs() {
    for (size_t i = 0; i < forward_.inputs.size(); ++i) {
      const Input& input = forward_.inputs[i];
      if (input.kind != InputKind::primal) continue;
      const auto primal = static_cast<int32_t>(i);
      AG_CHECK(primal == plan_.primals, "primals come first");
      ++plan_.primals;
      primal_of_.emplace(input.value, primal);
      if (input.storage == InputStorage::frees || input.storage == InputStorage::allocates) {
        plan_.resizes.push_back({primal, input.storage_bytes});
      }
      if (input.version_bumps != 0) plan_.version_bumps.push_back({primal, input.version_bumps});
      if (input.inner) plan_.inner_views.push_back(primal);
    }
  }

  void read_outputs() {
    for (size_t i = 0; i < forward_.outputs.size(); ++i) {
      const Output& output = forward_.outputs[i];
      if (!of_forward(output.kind)) continue;
      const auto position = static_cast<int32_t>(i);
      if (output.differentiable()) plan_.tangents.push_back(position);
      if (output.kind == OutputKind::mutated_input) {
        add_mutation(position, output);
      } else {
        add_handed_out(position, output);
      }
    }
  }

  void add_mutation(int32_t position, const Output& output) {
    const Input& input = forward_.inputs[output.index];
    const auto number = static_cast<int32_t>(plan_.mutations.size());
    plan_.mutations.push_back({position, output.index, input.mutates_data, input.mutates_metadata,
                               output.requires_grad, output.inner});
    mutation_of_.emplace(output.index, number);
    const bool same_meta = forward_.value(output.value).meta == forward_.value(input.value).meta;
    if (input.mutates_data && same_meta) written_of_.emplace(output.value, number);
  }

  /// The running statistics of a batch norm, whose operator writes them in place, so that no other
  /// copy is made. The old ones must not be read afterwards.
  void stage_statistics() {
    if (written_of_.empty()) return;
    const auto last_use = last_storage_uses(forward_, Uses::by_nodes_and_outputs);
    for (size_t i = 0; i < forward_.nodes.size(); ++i) {
      if (!forward_.nodes[i].op.traits().hides_writes) continue;
      for (const ValueId output : forward_.nodes[i].outputs) {
        const auto written = written_of_.find(output);
        if (written == written_of_.end()) continue;
        CallPlan::Mutation& mutation = plan_.mutations[written->second];
        const Value& old = forward_.value(forward_.inputs[mutation.primal].value);
        mutation.staged = !mutation.metadata && old.meta.offset == IntExpr(0) &&
                          is_contiguous(old.meta) &&
                          last_use[old.storage] == static_cast<int32_t>(i);
      }
    }
  }

  void add_handed_out(int32_t position, const Output& output) {
    const auto number = static_cast<int32_t>(plan_.handed_out.size());
    AG_CHECK(number == position, "what is handed out comes first");
    plan_.results += output.kind == OutputKind::result;
    plan_.handed_out.push_back({output.value == kNoValue, output.alias, output.leaf,
                                output.differentiable(), output.inner, output.version,
                                output.own_view});
    if (output.value == kNoValue || output.alias.kind != OutputAlias::Kind::none) return;
    handed_of_.emplace(output.value, number);
    handed_of_storage_.emplace(forward_.value(output.value).storage, number);
  }

  void read_saved() {
    const IdMap<ValueId, bool> direct = read_directly(backward_);
    for (size_t i = 0; i < forward_.outputs.size(); ++i) {
      const Output& output = forward_.outputs[i];
      if (output.kind != OutputKind::saved) continue;
      const Value& value = forward_.value(output.value);
      SavedSlot slot;
      slot.value = output.value;
      slot.index = static_cast<int32_t>(i);
      if (value.kind == ValueKind::token) {
        slot.form = Form::generator_state;
        slot.bytes = generator_state_bytes(forward_.generators[output.index]);
      } else if (value.kind != ValueKind::tensor) {
        slot.form = Form::number;
      } else {
        slot.owner = owners_[value.storage];
        slot.bytes = span_bytes(value.meta);
        slot.only_views = direct.contains(slot.value) && !direct[slot.value];
        choose_form(slot, value.storage);
      }
      plan_.saved.push_back(std::move(slot));
    }
  }

  void choose_form(SavedSlot& slot, StorageId storage) const {
    if (const auto primal = primal_of_.find(slot.value); primal != primal_of_.end()) {
      const auto it = mutation_of_.find(primal->second);
      const auto* mutation = it == mutation_of_.end() ? nullptr : &plan_.mutations[it->second];
      const bool overwritten = mutation != nullptr && (mutation->data || mutation->metadata);
      slot.form = overwritten ? Form::input_copy : Form::input;
      slot.index = primal->second;
      slot.has_our_history = mutation != nullptr && mutation->history;
    } else if (const auto written = written_of_.find(slot.value); written != written_of_.end()) {
      const CallPlan::Mutation& mutation = plan_.mutations[written->second];
      slot.form = Form::written_input;
      slot.index = mutation.primal;
      slot.has_our_history = mutation.history;
    } else if (const auto handed = handed_of_.find(slot.value); handed != handed_of_.end()) {
      slot.form = Form::handed_out;
      slot.index = handed->second;
      slot.has_our_history = plan_.handed_out[handed->second].differentiable;
    } else if (const auto shared = handed_of_storage_.find(storage);
               shared != handed_of_storage_.end()) {
      slot.shares = shared->second;
    }
  }

  const Graph& forward_;
  const Graph& backward_;
  IdMap<StorageId, Owner> owners_;
  CallPlan plan_;
  std::unordered_map<ValueId, int32_t> primal_of_;
  std::unordered_map<int32_t, int32_t> mutation_of_;  // by primal
  std::unordered_map<ValueId, int32_t> written_of_;   // new values: index of their mutation
  std::unordered_map<ValueId, int32_t> handed_of_;    // those with their own memory
  std::unordered_map<StorageId, int32_t> handed_of_storage_;
};

}  // namespace

IdMap<StorageId, Owner> storage_owners(const Graph& graph) {
  IdMap<StorageId, Owner> owners(graph.values.size(), Owner::program);
  const auto own = [&](ValueId id, Owner owner) {
    if (!graph.is_tensor(id)) return;
    owners[graph.value(id).storage] = owner;
  };
  const auto own_outputs = [&](Owner owner, auto of_kind) {
    for (const Output& output : graph.outputs) {
      if (of_kind(output.kind)) own(output.value, owner);
    }
  };
  // Later ones take precedence.
  own_outputs(Owner::written, [](OutputKind kind) { return kind == OutputKind::mutated_input; });
  own_outputs(Owner::result, handed_out);
  for (const Owner owner : {Owner::argument, Owner::held}) {
    for (const Input& input : graph.inputs) {
      if (input.kind != InputKind::primal) continue;
      const bool passed = input.source.kind == Source::Kind::argument;
      if (passed == (owner == Owner::argument)) own(input.value, owner);
    }
  }
  return owners;
}

std::string_view name(const SavedSlot& slot) {
  switch (slot.form) {
    case Form::generator_state: return "generator state";
    case Form::number: return "size";
    case Form::input:
    case Form::input_copy: return "primal";
    default: break;
  }
  if (slot.owner == Owner::result) return "result";
  return slot.only_views ? "view base" : "intermediate";
}

int32_t CallPlan::slot_of(ValueId value) const {
  const auto it =
      std::ranges::find_if(saved, [&](const SavedSlot& slot) { return slot.value == value; });
  return it == saved.end() ? -1 : static_cast<int32_t>(it - saved.begin());
}

int32_t CallPlan::tangent_of(int32_t output) const {
  const auto it = std::find(tangents.begin(), tangents.end(), output);
  return it == tangents.end() ? -1 : static_cast<int32_t>(it - tangents.begin());
}

std::vector<ValueId> CallPlan::donated() const {
  std::vector<ValueId> values;
  for (const SavedSlot& slot : saved) {
    const bool updated = slot.form == Form::input && std::ranges::count(updates, slot.index) > 0;
    if (slot.donated() || updated) values.push_back(slot.value);
  }
  return values;
}

bool CallPlan::has_inner() const {
  const auto inner = [](const auto& entry) { return entry.inner; };
  return !inner_views.empty() || std::ranges::any_of(handed_out, inner) ||
         std::ranges::any_of(mutations, inner);
}

CallPlan plan_call(const Graph& forward, const Graph& backward) {
  return CallPlanner(forward, backward).plan();
}

}  // namespace antegrad
