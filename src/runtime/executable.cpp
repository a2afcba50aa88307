#include "runtime/executable.h"

#include <antegrad/error.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "runtime/fork_gate.h"
#include "runtime/generator_states.h"

namespace antegrad::runtime {
namespace {

using Alias = OutputAlias::Kind;

size_t count_primals(const Graph& graph) {
  size_t count = 0;
  for (const auto& input : graph.inputs) count += input.kind == InputKind::primal;
  return count;
}

// The partitioner calls the two programs after the callable.
std::string name_of_callable(const Graph& forward) {
  constexpr std::string_view kSuffix = ".forward";
  std::string_view name = forward.name;
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  return std::string(name);
}

}  // namespace

Executable::Executable(const Graph& forward, const ops::AttrTables& tables,
                       const std::vector<Output>& gradients, BackwardSource source,
                       LineFinder lines, std::vector<ops::Question> questions)
    : name_(name_of_callable(forward)),
      primal_count_(count_primals(forward)),
      generators_(generators_of(forward, tables)),
      forward_(forward, tables),
      questions_(std::move(questions)),
      source_(std::move(source)),
      lines_(std::move(lines)) {
  for (size_t i = 0; i < primal_count_; ++i) {
    const auto& input = forward.inputs[i];
    AG_CHECK(input.kind == InputKind::primal, "primals come first");
    if (input.version_bumps != 0) {
      version_bumps_.push_back({static_cast<int32_t>(i), input.version_bumps});
    }
  }
  for (const auto& gradient : gradients) gradient_primals_.push_back(gradient.index);
  read_outputs(forward, tables);
  read_saved(forward);
}

void Executable::read_outputs(const Graph& forward, const ops::AttrTables& tables) {
  std::unordered_map<int32_t, ValueId> written;  // new values of primals
  for (const auto& output : forward.outputs) {
    if (output.kind == OutputKind::mutated_input) written[output.index] = output.value;
  }
  const auto value_of_target = [&](const OutputAlias& alias) {
    const auto index = static_cast<size_t>(alias.index);
    if (alias.of_output()) return forward.outputs[index].value;
    const auto it = written.find(alias.index);
    return it == written.end() ? forward.inputs[index].value : it->second;
  };
  for (size_t i = 0; i < forward.inputs.size(); ++i) {
    if (forward.inputs[i].inner) inner_views_.push_back(static_cast<int32_t>(i));
  }
  has_inner_ = !inner_views_.empty();
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (!of_forward(output.kind)) continue;
    tangent_of_output_.push_back(-1);
    if (output.differentiable()) {
      tangent_of_output_.back() = static_cast<int32_t>(tangents_.size());
      tangents_.push_back(ops::natural_tangent(forward.value(output.value).meta));
    }
    const auto position = static_cast<int32_t>(i);
    if (output.kind == OutputKind::mutated_input) {
      const auto& input = forward.inputs[static_cast<size_t>(output.index)];
      mutations_.push_back({position, output.index, input.mutates_data, input.mutates_metadata,
                            output.requires_grad, output.inner});
      has_inner_ |= output.inner;
      continue;
    }
    result_count_ += output.kind == OutputKind::result;
    HandedOut handed;
    handed.output = output.value == kNoValue ? -1 : position;
    handed.alias = output.alias;
    handed.leaf = output.leaf;
    handed.differentiable = output.differentiable();
    handed.version = output.version;
    handed.inner = output.inner;
    handed.own_view = output.own_view;
    has_inner_ |= output.inner;
    const auto kind = output.alias.kind;
    if (kind != Alias::none && kind != Alias::is_input && kind != Alias::same_as_output) {
      handed.steps = ViewSteps(forward, tables, value_of_target(output.alias), output.value);
    }
    handed_out_.push_back(std::move(handed));
  }
}

void Executable::read_saved(const Graph& forward) {
  std::unordered_map<ValueId, int32_t> primal_of, written_of, handed_of;
  std::unordered_map<StorageId, int32_t> handed_of_storage;
  for (size_t i = 0; i < primal_count_; ++i) {
    primal_of.emplace(forward.inputs[i].value, static_cast<int32_t>(i));
  }
  for (size_t m = 0; m < mutations_.size(); ++m) {
    const auto value = forward.outputs[static_cast<size_t>(mutations_[m].output)].value;
    const auto primal = forward.inputs[static_cast<size_t>(mutations_[m].primal)].value;
    if (mutations_[m].data && forward.value(value).meta == forward.value(primal).meta) {
      written_of.emplace(value, static_cast<int32_t>(m));
    }
  }
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (output.value == kNoValue || output.alias.kind != Alias::none) continue;
    handed_of.emplace(output.value, static_cast<int32_t>(i));
    handed_of_storage.emplace(forward.value(output.value).storage, static_cast<int32_t>(i));
  }
  const auto mutation_of = [&](int32_t primal) {
    return std::find_if(mutations_.begin(), mutations_.end(),
                        [&](const Mutation& m) { return m.primal == primal; });
  };
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (output.kind != OutputKind::saved) continue;
    saved_values_.push_back(output.value);
    if (forward.value(output.value).kind == ValueKind::token) {
      saved_.push_back({SavedSlot::Kind::generator_state, static_cast<int32_t>(i)});
    } else if (const auto it = primal_of.find(output.value); it != primal_of.end()) {
      const auto mutation = mutation_of(it->second);
      const bool mutated = mutation != mutations_.end();
      const bool overwritten = mutated && (mutation->data || mutation->metadata);
      saved_.push_back({overwritten ? SavedSlot::Kind::primal_copy : SavedSlot::Kind::primal,
                        it->second, -1, mutated && mutation->history});
    } else if (const auto w = written_of.find(output.value); w != written_of.end()) {
      const auto& mutation = mutations_[static_cast<size_t>(w->second)];
      saved_.push_back({SavedSlot::Kind::written_primal, mutation.primal, -1, mutation.history});
    } else if (const auto h = handed_of.find(output.value); h != handed_of.end()) {
      saved_.push_back({SavedSlot::Kind::handed_out, h->second, -1,
                        handed_out_[static_cast<size_t>(h->second)].differentiable});
    } else {
      SavedSlot slot{SavedSlot::Kind::intermediate, static_cast<int32_t>(i)};
      const auto shared = handed_of_storage.find(forward.value(output.value).storage);
      if (shared != handed_of_storage.end()) slot.shares = shared->second;
      saved_.push_back(slot);
    }
  }
}

std::vector<ValueId> Executable::donated() const {
  std::vector<ValueId> values;
  for (size_t i = 0; i < saved_.size(); ++i) {
    const bool ours = saved_[i].kind == SavedSlot::Kind::primal_copy ||
                      (saved_[i].kind == SavedSlot::Kind::intermediate && saved_[i].shares < 0);
    if (ours) values.push_back(saved_values_[i]);
  }
  return values;
}

BackwardKey Executable::usual_key() const {
  BackwardKey key;
  key.form.tangents.resize(tangents_.size());
  key.wanted.assign(gradient_primals_.size(), true);
  return key;
}

size_t Executable::form_count() const {
  const ForkSafeLock lock(mutex_);
  return backwards_.size();
}

bool Executable::has_form(const BackwardKey& key) const {
  const ForkSafeLock lock(mutex_);
  return std::any_of(backwards_.begin(), backwards_.end(),
                     [&](const auto& entry) { return entry.first == key; });
}

std::shared_ptr<const BackwardProgram> Executable::find(const BackwardKey& key) const {
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, program] : backwards_) {
    if (present == key) return program;
  }
  return nullptr;
}

std::shared_ptr<const BackwardProgram> Executable::backward(const BackwardKey& key) const {
  if (auto program = find(key)) return program;
  // Without the lock: the source may run the callable, which waits for other threads that do.
  return add(key, prepare(source_(key)));
}

std::shared_ptr<const BackwardProgram> Executable::add(
    const BackwardKey& key, std::shared_ptr<const BackwardProgram> program) const {
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, other] : backwards_) {
    if (present == key) return other;  // another thread was faster
  }
  return backwards_.emplace_back(key, std::move(program)).second;
}

void Executable::add_backward(const BackwardKey& key, const BackwardGraph& backward) {
  add(key, prepare(backward));
}

std::shared_ptr<const BackwardProgram> Executable::prepare(const BackwardGraph& backward) const {
  using Kind = BackwardProgram::Input::Kind;
  const auto& graph = backward.graph;
  BackwardProgram program{Program(graph, backward.tables), {}, {}};
  for (const auto& input : graph.inputs) {
    if (input.kind == InputKind::tangent) {
      program.inputs.push_back(
          {Kind::tangent, tangent_of_output_.at(static_cast<size_t>(input.index))});
    } else if (input.kind == InputKind::saved) {
      const auto other = backward.forward_values.find(input.value);
      const auto value = other == backward.forward_values.end() ? input.value : other->second;
      const auto slot = std::find(saved_values_.begin(), saved_values_.end(), value);
      AG_CHECK(slot != saved_values_.end(), "a value that the forward does not save");
      program.inputs.push_back({Kind::saved, static_cast<int32_t>(slot - saved_values_.begin())});
    } else {
      program.inputs.push_back({Kind::token, -1});
    }
  }
  program.gradients.assign(gradient_primals_.size(), -1);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto& output = graph.outputs[i];
    if (output.kind != OutputKind::gradient || output.value == kNoValue) continue;
    const auto gradient =
        std::find(gradient_primals_.begin(), gradient_primals_.end(), output.index);
    AG_CHECK(gradient != gradient_primals_.end(), "a gradient that nobody receives");
    program.gradients[static_cast<size_t>(gradient - gradient_primals_.begin())] =
        static_cast<int32_t>(i);
  }
  return std::make_shared<const BackwardProgram>(std::move(program));
}

}  // namespace antegrad::runtime
