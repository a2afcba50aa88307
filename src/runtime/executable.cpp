#include "runtime/executable.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <antegrad/error.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>

#include "runtime/compiled_node.h"
#include "torch_compat/autograd_node.h"
#include "torch_compat/convert.h"

namespace antegrad::runtime {
namespace {

size_t count_primals(const Graph& graph) {
  size_t count = 0;
  for (const auto& input : graph.inputs) count += input.kind == InputKind::primal;
  return count;
}

}  // namespace

Executable::Executable(const Graph& forward, const Graph& backward, const ops::AttrTables& tables,
                       std::exception_ptr backward_error)
    : name_(forward.name),
      primal_count_(count_primals(forward)),
      forward_(forward, tables),
      backward_error_(std::move(backward_error)) {
  for (size_t i = 0; i < primal_count_; ++i) {
    AG_CHECK(forward.inputs[i].kind == InputKind::primal, "primals come first");
  }
  read_outputs(forward);
  if (!backward.outputs.empty()) {
    backward_.emplace(backward, tables);
    read_backward(forward, backward);
  }
}

void Executable::read_outputs(const Graph& forward) {
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (output.kind == OutputKind::result) {
      Result result;
      result.output = output.value == kNoValue ? -1 : static_cast<int32_t>(i);
      result.alias = output.alias;
      result.differentiable = output.requires_grad && output.alias.kind == OutputAlias::Kind::none;
      if (result.differentiable) tangents_.emplace_back();
      results_.push_back(result);
    } else if (output.kind == OutputKind::mutated_input) {
      mutations_.push_back({static_cast<int32_t>(i), output.index});
    }
  }
}

void Executable::read_backward(const Graph& forward, const Graph& backward) {
  std::unordered_map<ValueId, int32_t> primal_of, result_of, output_of;
  std::unordered_map<StorageId, int32_t> result_of_storage;
  for (size_t i = 0; i < primal_count_; ++i) {
    primal_of.emplace(forward.inputs[i].value, static_cast<int32_t>(i));
  }
  int32_t result = 0;
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    const auto& output = forward.outputs[i];
    if (output.kind == OutputKind::result) {
      if (output.value != kNoValue && output.alias.kind == OutputAlias::Kind::none) {
        result_of.emplace(output.value, result);
        result_of_storage.emplace(forward.value(output.value).storage, result);
      }
      ++result;
    } else if (output.kind == OutputKind::saved) {
      output_of.emplace(output.value, static_cast<int32_t>(i));
    }
  }
  int32_t tangent = 0;
  for (const auto& input : backward.inputs) {
    if (input.kind == InputKind::tangent) {
      const auto& meta = backward.value(input.value).meta;
      tangents_.at(static_cast<size_t>(tangent)) = {torch_compat::to_ints(meta.sizes),
                                                    torch_compat::to_ints(meta.strides)};
      backward_inputs_.push_back(~tangent++);
      continue;
    }
    if (input.kind != InputKind::saved && input.kind != InputKind::primal) {
      backward_inputs_.push_back(kTokenInput);
      continue;
    }
    backward_inputs_.push_back(static_cast<int32_t>(saved_.size()));
    if (const auto it = primal_of.find(input.value); it != primal_of.end()) {
      bool overwritten = false;
      for (const auto& mutation : mutations_) overwritten |= mutation.primal == it->second;
      saved_.push_back(
          {overwritten ? SavedSlot::Kind::primal_copy : SavedSlot::Kind::primal, it->second});
    } else if (const auto r = result_of.find(input.value); r != result_of.end()) {
      saved_.push_back({SavedSlot::Kind::result, r->second});
    } else {
      const auto o = output_of.find(input.value);
      AG_CHECK(o != output_of.end(), "a saved value that the forward does not return");
      SavedSlot slot{SavedSlot::Kind::intermediate, o->second};
      const auto shared = result_of_storage.find(forward.value(input.value).storage);
      if (shared != result_of_storage.end()) slot.shares_result = shared->second;
      saved_.push_back(slot);
    }
  }
  for (size_t i = 0; i < backward.outputs.size(); ++i) {
    const auto& output = backward.outputs[i];
    if (output.kind != OutputKind::gradient || output.value == kNoValue) continue;
    gradient_outputs_.push_back(static_cast<int32_t>(i));
    gradient_primals_.push_back(output.index);
  }
}

std::vector<at::Tensor> Executable::pick_results(const std::vector<at::Tensor>& outputs,
                                                 const std::vector<at::Tensor>& primals) const {
  std::vector<at::Tensor> results;
  results.reserve(results_.size());
  for (const auto& result : results_) {
    const auto index = static_cast<size_t>(result.alias.index);
    switch (result.alias.kind) {
      case OutputAlias::Kind::is_input: results.push_back(primals[index]); break;
      case OutputAlias::Kind::same_as_output: results.push_back(results[index]); break;
      default:
        results.push_back(result.output < 0 ? at::Tensor()
                                            : outputs[static_cast<size_t>(result.output)]);
    }
  }
  return results;
}

std::vector<at::Tensor> Executable::call(std::vector<at::Tensor> primals) const {
  AG_CHECK(primals.size() == primal_count_, "number of primals");
  const bool differentiate = !tangents_.empty() && at::GradMode::is_enabled();
  std::vector<at::Tensor> copies;
  if (differentiate) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const auto& slot : saved_) {
      if (slot.kind != SavedSlot::Kind::primal_copy) continue;
      copies.push_back(primals[static_cast<size_t>(slot.index)].clone());
    }
  }
  auto inputs = primals;
  inputs.resize(forward_.input_count());  // tokens
  auto outputs = forward_.run(std::move(inputs));

  // The commit point: from here on nothing throws in ordinary use.
  for (const auto& mutation : mutations_) {
    auto& target = primals[static_cast<size_t>(mutation.primal)];
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      target.copy_(outputs[static_cast<size_t>(mutation.output)]);
    }
    if (!target.is_inference()) torch::autograd::impl::bump_version(target);
  }
  auto results = pick_results(outputs, primals);
  if (differentiate) attach_node(primals, outputs, results, std::move(copies));
  return results;
}

void Executable::attach_node(const std::vector<at::Tensor>& primals,
                             const std::vector<at::Tensor>& outputs,
                             std::vector<at::Tensor>& results,
                             std::vector<at::Tensor> copies) const {
  torch::autograd::edge_list edges;
  edges.reserve(gradient_primals_.size());
  for (const auto primal : gradient_primals_) {
    edges.push_back(torch::autograd::impl::gradient_edge(primals[static_cast<size_t>(primal)]));
  }
  const auto [owner, node] =
      torch_compat::make_node<CompiledNode>(shared_from_this(), std::move(edges));
  for (size_t i = 0; i < results_.size(); ++i) {
    if (results_[i].differentiable) torch::autograd::set_history(results[i], owner);
  }
  node->save(primals, outputs, results, std::move(copies));
}

}  // namespace antegrad::runtime
