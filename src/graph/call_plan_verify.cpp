#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <antegrad/error.h>

#include "graph/call_plan.h"

namespace antegrad {
namespace {

using Form = SavedSlot::Form;

template <class T>
bool is_index(int32_t index, const std::vector<T>& of) {
  return index >= 0 && std::cmp_less(index, of.size());
}

/// One function per rule, whose error message states the rule. The rules inspect the graphs again
/// and share no code with plan_call().
class PlanVerifier {
 public:
  PlanVerifier(const CallPlan& plan, const Graph& forward, const Graph& backward,
               const ForwardValues& forward_values)
      : plan_(plan), forward_(forward), backward_(backward), forward_values_(forward_values) {}

  void run() const {
    inputs_are_counted();
    outputs_are_described();
    slots_stand_for_saved_outputs();
    for (const SavedSlot& slot : plan_.saved) form_fits(slot);
    for (const SavedSlot& slot : plan_.saved) nobody_sees_what_is_donated(slot);
    backward_reads_what_is_saved();
    gradients_are_of_primals();
  }

 private:
  void require(bool holds, std::string_view rule, const std::string& what) const {
    if (holds) return;
    throw InternalError("the call plan breaks the rule that " + std::string(rule) + ": " + what);
  }
  static std::string value_name(ValueId id) { return "%" + to_string(id); }
  bool is_primal(int32_t input) const {
    return is_index(input, forward_.inputs) && forward_.inputs[input].kind == InputKind::primal;
  }
  const Output& output(int32_t position, std::string_view rule) const {
    require(is_index(position, forward_.outputs), rule, "output " + std::to_string(position));
    return forward_.outputs[position];
  }

  void inputs_are_counted() const {
    int32_t primals = 0;
    for (const Input& input : forward_.inputs) primals += input.kind == InputKind::primal;
    require(primals == plan_.primals, "all primals are counted", std::to_string(plan_.primals));
    size_t resized = 0;
    for (const Input& input : forward_.inputs) {
      resized += input.storage == InputStorage::frees || input.storage == InputStorage::allocates;
    }
    require(resized == plan_.resizes.size(), "each resized storage has one entry",
            std::to_string(resized));
    for (const auto& resize : plan_.resizes) {
      const auto expected = resize.allocates() ? InputStorage::allocates : InputStorage::frees;
      require(is_primal(resize.primal) && forward_.inputs[resize.primal].storage == expected &&
                  forward_.inputs[resize.primal].storage_bytes == resize.bytes,
              "storages are resized as the inputs say", "input " + std::to_string(resize.primal));
    }
    for (const auto& bump : plan_.version_bumps) {
      require(is_primal(bump.primal) && forward_.inputs[bump.primal].version_bumps == bump.count,
              "versions rise as the inputs say", "input " + std::to_string(bump.primal));
    }
  }

  void outputs_are_described() const {
    constexpr std::string_view kRule = "each output of the call has one entry";
    size_t handed = 0, mutated = 0, tangents = 0;
    for (const Output& found : forward_.outputs) {
      handed += handed_out(found.kind);
      mutated += found.kind == OutputKind::mutated_input;
      tangents += of_forward(found.kind) && found.differentiable();
    }
    require(handed == plan_.handed_out.size(), kRule, std::to_string(handed) + " handed out");
    require(mutated == plan_.mutations.size(), kRule, std::to_string(mutated) + " written");
    require(tangents == plan_.tangents.size(), kRule, std::to_string(tangents) + " with tangents");
    for (size_t i = 0; i < plan_.handed_out.size(); ++i) {
      const auto& entry = plan_.handed_out[i];
      const Output& found = output(static_cast<int32_t>(i), kRule);
      require(found.alias == entry.alias && entry.undefined == (found.value == kNoValue), kRule,
              "output " + std::to_string(i));
      require(!entry.alias.of_output() || is_index(entry.alias.index, plan_.handed_out),
              "the target of an alias is handed out", "output " + std::to_string(i));
      require(!entry.alias.of_input() || is_primal(entry.alias.index), "an alias is of a primal",
              "output " + std::to_string(i));
    }
    for (const auto& mutation : plan_.mutations) {
      const Output& found = output(mutation.output, kRule);
      require(found.kind == OutputKind::mutated_input && found.index == mutation.primal &&
                  is_primal(mutation.primal),
              "a mutation writes a primal", "output " + std::to_string(mutation.output));
      if (mutation.staged) nobody_reads_what_is_staged(mutation);
    }
  }

  /// No node behind the one that makes the new value, and no output, reads the old one.
  void nobody_reads_what_is_staged(const CallPlan::Mutation& mutation) const {
    constexpr std::string_view kRule = "a staged input is not read after it was written";
    const ValueId written = forward_.outputs[mutation.output].value;
    const StorageId old = forward_.value(forward_.inputs[mutation.primal].value).storage;
    const auto is_old = [&](ValueId id) {
      return forward_.is_tensor(id) && forward_.value(id).storage == old;
    };
    bool made = false;
    for (const Node& node : forward_.nodes) {
      require(!made || std::ranges::none_of(node.inputs, is_old), kRule, value_name(written));
      made |= std::ranges::count(node.outputs, written) != 0;
    }
    for (const Output& found : forward_.outputs) {
      require(found.value == kNoValue || !is_old(found.value), kRule, value_name(written));
    }
    require(made && mutation.data && !mutation.metadata, kRule, value_name(written));
  }

  void slots_stand_for_saved_outputs() const {
    size_t next = 0;
    for (const Output& found : forward_.outputs) {
      if (found.kind != OutputKind::saved) continue;
      require(next < plan_.saved.size() && plan_.saved[next].value == found.value,
              "slots stand in the order of saved outputs", value_name(found.value));
      ++next;
    }
    require(next == plan_.saved.size(), "each slot is saved", std::to_string(plan_.saved.size()));
    std::set<ValueId> once;
    for (const SavedSlot& slot : plan_.saved) {
      require(once.insert(slot.value).second, "a value is saved once", value_name(slot.value));
    }
  }

  bool overwritten(int32_t primal) const {
    const Input& input = forward_.inputs[primal];
    return input.mutates_data || input.mutates_metadata;
  }

  void form_fits(const SavedSlot& slot) const {
    constexpr std::string_view kRule = "a slot names the tensor that it saves";
    const std::string what = value_name(slot.value);
    const Value& value = forward_.value(slot.value);
    const bool raw =
        slot.form == Form::raw || slot.form == Form::generator_state || slot.form == Form::number;
    if (raw) {
      require(output(slot.index, kRule).value == slot.value, kRule, what);
      const ValueKind kind = value.kind;
      require((slot.form == Form::generator_state) == (kind == ValueKind::token) &&
                  (slot.form == Form::raw) == (kind == ValueKind::tensor),
              "the form of a slot is that of its value", what);
    } else if (slot.form == Form::handed_out) {
      require(is_index(slot.index, plan_.handed_out) &&
                  forward_.outputs[slot.index].value == slot.value,
              kRule, what);
    } else {
      require(is_primal(slot.index), kRule, what);
      const ValueId primal = forward_.inputs[slot.index].value;
      require((slot.value == primal) == (slot.form != Form::written_input), kRule, what);
      require((slot.form == Form::input) != overwritten(slot.index),
              "a written input is saved as a copy, or after the write", what);
      require(slot.form != Form::input_copy ||
                  forward_.inputs[slot.index].storage != InputStorage::allocates,
              "memory that the call allocates is not read as it was before", what);
    }
    require(raw || value.kind == ValueKind::tensor, "numbers and states are kept raw", what);
  }

  /// No result, base, input or other slot shares the memory of a donated slot.
  void nobody_sees_what_is_donated(const SavedSlot& slot) const {
    const Value& value = forward_.value(slot.value);
    if (!slot.donated() || slot.form != Form::raw || value.kind != ValueKind::tensor) return;
    constexpr std::string_view kRule =
        "a donated value shares memory with no result, input or other slot";
    for (const Output& found : forward_.outputs) {
      if (found.value == kNoValue || found.value == slot.value || !handed_out(found.kind)) continue;
      if (found.alias.kind != OutputAlias::Kind::none) continue;
      require(forward_.value(found.value).storage != value.storage, kRule, value_name(slot.value));
    }
    for (const Input& input : forward_.inputs) {
      if (input.kind != InputKind::primal) continue;
      require(forward_.value(input.value).storage != value.storage, kRule, value_name(slot.value));
    }
  }

  void backward_reads_what_is_saved() const {
    for (const Input& input : backward_.inputs) {
      if (input.kind != InputKind::saved) continue;
      const auto other = forward_values_.find(input.value);
      const ValueId value = other == forward_values_.end() ? input.value : other->second;
      require(plan_.slot_of(value) >= 0, "the backward reads saved values only", value_name(value));
    }
  }

  void gradients_are_of_primals() const {
    size_t next = 0;
    std::vector<int32_t> updates;
    for (const Output& found : backward_.outputs) {
      if (found.kind != OutputKind::gradient) continue;
      require(next < plan_.gradients.size() && plan_.gradients[next] == found.index &&
                  is_primal(found.index),
              "gradients are of primals, in order", "input " + std::to_string(found.index));
      ++next;
      if (found.update) updates.push_back(found.index);
    }
    require(next == plan_.gradients.size(), "each gradient is computed", "");
    require(updates == plan_.updates, "updates are those of the backward", "");
  }

  const CallPlan& plan_;
  const Graph& forward_;
  const Graph& backward_;
  const ForwardValues& forward_values_;
};

}  // namespace

void verify(const CallPlan& plan, const Graph& forward, const Graph& backward,
            const ForwardValues& forward_values) {
  PlanVerifier(plan, forward, backward, forward_values).run();
}

}  // namespace antegrad
