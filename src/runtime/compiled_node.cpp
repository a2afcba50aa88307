#include "runtime/compiled_node.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <antegrad/error.h>

#include <algorithm>

#include "runtime/front_errors.h"
#include "runtime/kept_memory.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/convert.h"
#include "torch_compat/saved_tensor_hooks.h"
#include "torch_compat/tracer_context.h"

namespace antegrad::runtime {

using torch::autograd::variable_list;

namespace {

// The number of patterns of tangent strides with their own program; tangents with other strides are
// copied.
constexpr size_t kMaxForms = 16;

at::Tensor with_strides(const at::Tensor& tangent, at::IntArrayRef strides) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto dense = at::empty_strided(tangent.sizes(), strides, tangent.options());
  dense.copy_(tangent);
  return dense;
}

BackwardKey key_for(const Executable& executable, variable_list& tangents, std::vector<bool> wanted,
                    bool releases) {
  BackwardKey key;
  key.form.autocast = torch_compat::Autocast::now();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (size_t i = 0; i < tangents.size(); ++i) {
    make_plain(tangents[i]);
    key.form.tangents.push_back(ops::form_of(tangents[i], executable.tangents()[i]));
  }
  key.wanted = std::move(wanted);
  key.releases = releases;
  return key;
}

}  // namespace

CompiledNode::CompiledNode(std::shared_ptr<const Executable> executable,
                           torch::autograd::edge_list&& next_edges)
    : FormulaNode(std::move(next_edges)), executable_(std::move(executable)) {}

void CompiledNode::save(const std::vector<at::Tensor>& primals,
                        const std::vector<at::Tensor>& outputs,
                        const std::vector<at::Tensor>& handed, std::vector<at::Tensor> copies,
                        std::vector<std::optional<hooks::PackedTensor>> packed,
                        std::optional<CallInputs> inputs) {
  const auto& slots = executable_->plan().saved;
  // Hooks of libtorch's scopes come as `packed`, or are inlined in the program.
  const torch_compat::NoSavedTensorHooks no_hooks;
  inputs_ = std::move(inputs);
  if (inputs_) inputs_->keep(primals);
  kept_.resize(slots.size());
  size_t next_copy = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto& slot = slots[i];
    const auto index = slot.index;
    auto& kept = kept_[i];
    if (i < packed.size() && packed[i]) {
      kept.packed = std::move(packed[i]);
      continue;
    }
    switch (slot.form) {
      case SavedSlot::Form::input:
      case SavedSlot::Form::written_input:
        kept.variable.emplace(primals[index], slot.has_our_history);
        break;
      case SavedSlot::Form::handed_out:
        kept.variable.emplace(handed[index], slot.has_our_history);
        break;
      case SavedSlot::Form::input_copy: kept.raw = std::move(copies[next_copy++]); break;
      case SavedSlot::Form::generator_state:
      case SavedSlot::Form::number: kept.raw = outputs[index]; break;
      case SavedSlot::Form::raw:
        kept.raw = outputs[index];
        if (slot.shares >= 0) {
          const auto& other = handed[slot.shares];
          if (other.is_inference()) break;
          kept.shared = other.unsafeGetTensorImpl()->version_counter();
          kept.version = kept.shared->current_version();
        }
        break;
    }
  }
}

void make_plain(at::Tensor& tangent) {
  if (!tangent.defined()) return;
  if (tangent.layout() != at::kStrided) {
    throw BackwardError(ErrorText{"strided tangents",
                                  "a tangent of layout " + torch_compat::to_name(tangent.layout()),
                                  "convert it to a dense tensor"});
  }
  tangent = tangent.resolve_conj().resolve_neg();
}

bool any_defined(const variable_list& tensors) {
  return std::ranges::any_of(tensors, [](const at::Tensor& tensor) { return tensor.defined(); });
}

void refuse_freed() {
  throw BackwardError(
      ErrorText{"saved tensors of the compiled region",
                "that an earlier backward pass, finished or failed, freed them",
                "pass retain_graph=true to the first backward() when a second one follows"});
}

void CompiledNode::release_variables() {
  const std::lock_guard lock(mutex_);
  release();
}

void CompiledNode::release() {
  kept_.clear();
  inputs_.reset();
  freed_ = true;
}

// Kept by this node alone.
bool CompiledNode::is_intermediate(size_t slot) const {
  const auto& of_plan = executable_->plan().saved[slot];
  return of_plan.form == SavedSlot::Form::raw && of_plan.shares < 0 && !kept_[slot].packed;
}

void CompiledNode::give_up_intermediates() {
  if (gave_up_ || freed_ || !executable_->plan().resizes.empty()) return;
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (is_intermediate(i)) kept_[i].raw.reset();
  }
  gave_up_ = true;
}

void CompiledNode::compute_again() {
  if (!gave_up_ || freed_) return;
  const GeneratorsOfCall generators(*inputs_, executable_->generators());
  const auto outputs = executable_->outputs_again(inputs_->primals(getptr()));
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (is_intermediate(i)) kept_[i].raw = outputs[executable_->plan().saved[i].index];
  }
  gave_up_ = false;
}

void CompiledNode::check_shared_versions() const {
  for (const auto& kept : kept_) {
    if (!kept.shared || kept.shared->current_version() == kept.version) continue;
    throw BackwardError(
        ErrorText{"results whose memory backward needs, unchanged since the call (version " +
                      std::to_string(kept.version) + ")",
                  "one that was modified in place (version " +
                      std::to_string(kept.shared->current_version()) + ")",
                  "modify a clone() of the result"});
  }
}

bool BackwardProgram::reads_saved() const {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Input& input) { return input.kind == Input::Kind::saved; });
}

// Numbers, states of generators and what hooks packed are not tensors of a graph.
bool CompiledNode::show(std::string& key, std::vector<at::Tensor>& saved) {
  const std::lock_guard lock(mutex_);
  if (is_replaced_ || !executable_->has_plain_backward()) return false;
  const auto& slots = executable_->plan().saved;
  for (const auto& slot : slots) {
    if (slot.form == SavedSlot::Form::generator_state || slot.form == SavedSlot::Form::number) {
      return false;
    }
  }
  if (freed_) {
    if (!slots.empty()) refuse_freed();
    return false;
  }
  for (const auto& kept : kept_) {
    if (kept.packed) return false;
  }
  check_shared_versions();
  compute_again();
  const auto* address = executable_.get();  // which the formula keeps alive
  key.append(reinterpret_cast<const char*>(&address), sizeof(address));
  for (const auto& kept : kept_) {
    saved.push_back(kept.variable ? kept.variable->unpack(getptr()) : kept.raw);
  }
  return true;
}

CompiledNode::Formula CompiledNode::formula(std::vector<bool> wanted) {
  const auto programs = std::make_shared<const BackwardPrograms>(
      executable_->plan(), nullptr,
      [executable = executable_](const BackwardKey& key) {
        return executable->plain_backward(key);
      },
      AliasCheck::off);
  return [executable = executable_, programs, wanted = std::move(wanted)](
             const variable_list& arrived, const std::vector<at::Tensor>& saved) {
    using Kind = BackwardProgram::Input::Kind;
    auto tangents = arrived;
    variable_list gradients(wanted.size());
    if (!any_defined(tangents)) return gradients;
    auto key = key_for(*executable, tangents, wanted, /*releases=*/false);
    if (torch_compat::carried() != nullptr && !programs->has(key)) {
      throw torch_compat::UnpreparedFormula{
          [programs, key = std::move(key)] { programs->get(key); }};
    }
    const auto program = programs->get(key);
    std::vector<at::Tensor> inputs;
    for (const auto& [kind, index] : program->inputs) {
      inputs.push_back(kind == Kind::saved     ? saved[index]
                       : kind == Kind::tangent ? tangents[index]
                                               : at::Tensor());
    }
    const auto outputs = run(*program, std::move(inputs), executable->lines());
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (program->gradients[i] >= 0) gradients[i] = outputs[program->gradients[i]];
    }
    return gradients;
  };
}

std::vector<at::Tensor> CompiledNode::gather(const BackwardProgram& program,
                                             variable_list& tangents) {
  using Kind = BackwardProgram::Input::Kind;
  std::vector<at::Tensor> inputs;
  inputs.reserve(program.inputs.size());
  for (const auto& input : program.inputs) {
    const auto index = input.index;
    if (input.kind == Kind::token) {
      inputs.emplace_back();
    } else if (input.kind == Kind::tangent) {
      inputs.push_back(std::move(tangents[index]));
    } else {
      const auto& kept = kept_[index];
      if (kept.packed) {
        inputs.push_back(kept.packed->unpack());
      } else if (executable_->plan().saved[index].held_raw()) {
        inputs.push_back(kept.raw);
      } else {
        inputs.push_back(kept.variable->unpack(getptr()));
      }
    }
  }
  return inputs;
}

variable_list CompiledNode::apply(variable_list&& tangents) try {
  const std::lock_guard lock(mutex_);
  if (is_replaced_) return std::move(tangents);
  std::vector<bool> wanted;
  for (size_t i = 0; i < num_outputs(); ++i) wanted.push_back(task_should_compute_output(i));
  if (at::GradMode::is_enabled()) {
    return with_history(std::move(tangents), std::move(wanted), /*replaces=*/true);
  }
  // Queried for this pass, since a pass of another thread may retain.
  const bool releases = !torch_compat::backward_retains_graph();
  return without_history(std::move(tangents), std::move(wanted), releases);
} catch (const Error& error) {
  rethrow_for_front(error);
}

variable_list CompiledNode::gradients_of_tangents(variable_list&& tangents,
                                                  std::vector<bool> wanted) {
  const std::lock_guard lock(mutex_);
  return at::GradMode::is_enabled()
             ? with_history(std::move(tangents), std::move(wanted), /*replaces=*/false)
             : without_history(std::move(tangents), std::move(wanted), /*releases=*/false);
}

variable_list CompiledNode::without_history(variable_list&& tangents, std::vector<bool> wanted,
                                            bool releases) {
  variable_list gradients(wanted.size());
  if (!any_defined(tangents)) return gradients;
  check_shared_versions();
  auto key = key_for(*executable_, tangents, std::move(wanted), releases);
  if (executable_->backwards().count() >= kMaxForms && !executable_->backwards().has(key)) {
    for (size_t i = 0; i < tangents.size(); ++i) {
      auto& form = key.form.tangents[i];
      if (!form.strides) continue;
      tangents[i] = with_strides(tangents[i], executable_->tangents()[i].strides);
      form.strides.reset();
    }
  }
  const auto program = executable_->backwards().get(key);
  if (freed_ && program->reads_saved()) refuse_freed();
  compute_again();
  auto inputs = gather(*program, tangents);
  // From here on only the program holds them, so that each is freed at its last use.
  if (releases) release();
  const KeepsMemory keeps(executable_->kept_memory());
  auto outputs = run(*program, std::move(inputs), executable_->lines());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto output = program->gradients[i];
    if (output >= 0) gradients[i] = std::move(outputs[output]);
  }
  return gradients;
}

}  // namespace antegrad::runtime
