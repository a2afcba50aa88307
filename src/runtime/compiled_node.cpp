#include "runtime/compiled_node.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <antegrad/error.h>

namespace antegrad::runtime {

using torch::autograd::variable_list;

CompiledNode::CompiledNode(std::shared_ptr<const Executable> executable,
                           torch::autograd::edge_list&& next_edges)
    : Node(std::move(next_edges)), executable_(std::move(executable)) {}

void CompiledNode::save(const std::vector<at::Tensor>& primals,
                        const std::vector<at::Tensor>& outputs,
                        const std::vector<at::Tensor>& results, std::vector<at::Tensor> copies) {
  const auto& slots = executable_->saved_;
  kept_.resize(slots.size());
  size_t next_copy = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto index = static_cast<size_t>(slots[i].index);
    auto& kept = kept_[i];
    switch (slots[i].kind) {
      case SavedSlot::Kind::primal:
        kept.variable = torch::autograd::SavedVariable(primals[index], /*is_output=*/false);
        break;
      case SavedSlot::Kind::result:
        kept.variable = torch::autograd::SavedVariable(results[index],
                                                       executable_->results_[index].differentiable);
        break;
      case SavedSlot::Kind::primal_copy: kept.raw = std::move(copies[next_copy++]); break;
      case SavedSlot::Kind::intermediate:
        kept.raw = outputs[index];
        if (slots[i].shares_result >= 0) {
          const auto& result = results[static_cast<size_t>(slots[i].shares_result)];
          kept.shared = result.unsafeGetTensorImpl()->version_counter();
          kept.version = kept.shared->current_version();
        }
        break;
    }
  }
}

void CompiledNode::release_variables() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
  freed_ = true;
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

std::vector<at::Tensor> CompiledNode::gather(variable_list& tangents) {
  std::vector<at::Tensor> inputs;
  const auto& slots = executable_->saved_;
  inputs.reserve(executable_->backward_inputs_.size());
  for (const auto source : executable_->backward_inputs_) {
    if (source >= 0) {
      auto& kept = kept_[static_cast<size_t>(source)];
      const auto kind = slots[static_cast<size_t>(source)].kind;
      if (kind == SavedSlot::Kind::primal || kind == SavedSlot::Kind::result) {
        inputs.push_back(kept.variable.unpack(getptr()));
        if (releasing_) kept.variable.reset_data();
      } else if (releasing_) {
        inputs.push_back(std::move(kept.raw));
      } else {
        inputs.push_back(kept.raw);
      }
    } else if (source == Executable::kTokenInput) {
      inputs.emplace_back();
    } else {
      inputs.push_back(std::move(tangents[static_cast<size_t>(~source)]));
    }
  }
  return inputs;
}

namespace {

// The tangent with the strides that the backward program was built for.
at::Tensor with_strides(at::Tensor tangent, const std::vector<int64_t>& strides) {
  if (tangent.strides().equals(strides)) return tangent;
  // Strides of dimensions of size one say nothing.
  bool same = true;
  for (int64_t d = 0; d < tangent.dim(); ++d) {
    same &= tangent.size(d) == 1 || tangent.stride(d) == strides[static_cast<size_t>(d)];
  }
  if (same) return tangent;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto dense = at::empty_strided(tangent.sizes(), strides, tangent.options());
  dense.copy_(tangent);
  return dense;
}

}  // namespace

variable_list CompiledNode::apply(variable_list&& tangents) {
  const std::lock_guard lock(mutex_);
  variable_list gradients(num_outputs());
  if (freed_) {
    throw BackwardError(ErrorText{
        "saved tensors of the compiled region", "that backward ran already and freed them",
        "pass retain_graph=true to the first backward() when a second one follows"});
  }
  if (executable_->backward_error_) std::rethrow_exception(executable_->backward_error_);
  if (at::GradMode::is_enabled()) {
    throw BackwardError(ErrorText{"a backward pass of first order",
                                  "create_graph=true through a compiled region",
                                  "compute higher derivatives in eager, or inside the region"});
  }
  size_t defined = 0;
  for (const auto& tangent : tangents) defined += tangent.defined();
  if (defined == 0) return gradients;
  if (defined != tangents.size()) {
    throw BackwardError(
        ErrorText{"a tangent for each of the " + std::to_string(tangents.size()) +
                      " differentiable results of the compiled region",
                  std::to_string(defined) + " of them",
                  "detach() inside the callable the results that backward does not start from"});
  }
  check_shared_versions();
  for (size_t i = 0; i < tangents.size(); ++i) {
    tangents[i] = with_strides(std::move(tangents[i]), executable_->tangents_[i].strides);
  }
  auto outputs = executable_->backward_->run(gather(tangents));
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = std::move(outputs[static_cast<size_t>(executable_->gradient_outputs_[i])]);
  }
  return gradients;
}

}  // namespace antegrad::runtime
