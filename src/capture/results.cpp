#include "capture/results.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <antegrad/error.h>
#include <torch/csrc/autograd/autograd.h>

#include <unordered_map>
#include <unordered_set>

namespace antegrad::capture {
namespace {

[[noreturn]] void not_covered(const std::string& found) {
  throw CaptureError("",
                     {"results that own their memory", found, "return a clone() of the tensor"});
}

// What finish_joint works on.
struct Joint {
  Tracer& tracer;
  std::vector<at::Tensor> results;
  std::vector<Output> outputs;                          // one a result
  std::unordered_map<StorageId, int32_t> root_storage;  // storage of a root's first value -> root
  std::unordered_set<StorageId> owned;                  // storages that outputs own already
};

StorageId storage_of(const Joint& joint, ValueId value) {
  return joint.tracer.graph.value(value).storage;
}

// Relation of result `i` to inputs and to earlier results.
Output describe_result(Joint& joint, size_t i) {
  auto& result = joint.results[i];
  Output output;
  output.kind = OutputKind::result;
  if (!result.defined()) return output;
  output.requires_grad = result.requires_grad();
  if (const auto root = joint.tracer.root_of_wrapper(result); root >= 0) {
    output.value = joint.tracer.value_of(result);
    output.alias = {OutputAlias::Kind::is_input, root};
    return output;
  }
  output.value = joint.tracer.value_of(result);
  for (size_t j = 0; j < i; ++j) {
    if (joint.outputs[j].value != output.value) continue;
    if (!joint.results[j].is_same(result)) not_covered("two results that share memory");
    output.alias = {OutputAlias::Kind::same_as_output, static_cast<int32_t>(j)};
    return output;
  }
  const auto storage = storage_of(joint, output.value);
  if (joint.root_storage.contains(storage)) {
    not_covered("a result that is a view of an input or of a closure tensor");
  }
  if (!joint.owned.insert(storage).second) not_covered("two results that share memory");
  return output;
}

bool is_differentiable(const Joint& joint, const Output& output) {
  return output.requires_grad && output.alias.kind == OutputAlias::Kind::none &&
         joint.tracer.graph.value(output.value).kind == ValueKind::tensor;
}

// Mutated roots, as outputs that the runtime writes back.
std::vector<Output> find_mutations(Joint& joint) {
  std::vector<Output> outputs;
  auto& roots = joint.tracer.roots();
  std::unordered_map<const void*, int> sharers;
  for (const auto& root : roots) {
    if (root.real.has_storage()) ++sharers[root.real.storage().unsafeGetStorageImpl()];
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    auto& root = roots[i];
    auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(root.wrapper);
    if (wrapper->has_metadata_mutation() || wrapper->was_storage_changed()) {
      throw MutationError(
          "", {"inputs that keep their sizes and strides",
               "an input whose metadata the callable changes", "change it before the call"});
    }
    if (wrapper->mutation_counter() == 0) continue;
    const auto value = joint.tracer.value_of(root.wrapper);
    if (value == root.value) continue;
    if (root.real.requires_grad()) {
      throw MutationError("", {"in-place changes of tensors that do not require grad",
                               "a parameter or input that requires grad and is written inside",
                               "update parameters outside of the compiled callable"});
    }
    if (root.real.has_storage() && sharers[root.real.storage().unsafeGetStorageImpl()] > 1) {
      throw MutationError("", {"a written tensor that shares no memory with another input",
                               "a write to one of several tensors that share a storage",
                               "pass one of them and make the views inside"});
    }
    if (root.source.kind == Source::Kind::constant) continue;
    Output output;
    output.value = value;
    output.kind = OutputKind::mutated_input;
    output.index = static_cast<int32_t>(i);
    outputs.push_back(output);
  }
  return outputs;
}

// Gradients must own their storage: AccumulateGrad may keep them as they are.
ValueId owning_gradient(Joint& joint, at::Tensor gradient) {
  auto value = joint.tracer.value_of(gradient);
  const auto storage = storage_of(joint, value);
  if (!joint.root_storage.contains(storage) && joint.owned.insert(storage).second) return value;
  gradient = at::clone(gradient);
  value = joint.tracer.value_of(gradient);
  joint.owned.insert(storage_of(joint, value));
  return value;
}

struct Backward {
  std::vector<Input> tangents;
  std::vector<Output> gradients;
};

// Strides that a tangent is promised to have: those of its result when dense, else contiguous.
shapes::Spec tangent_spec(const at::Tensor& result) {
  auto spec = spec_of(result);
  spec.offset = 0;
  if (!result.is_non_overlapping_and_dense()) {
    spec.strides = shapes::contiguous_strides(spec.sizes);
  }
  return spec;
}

Backward run_backward(Joint& joint) {
  Backward backward;
  auto& tracer = joint.tracer;
  std::vector<at::Tensor> outputs, tangents, inputs;
  std::vector<int32_t> input_roots;
  for (size_t i = 0; i < joint.outputs.size(); ++i) {
    if (!is_differentiable(joint, joint.outputs[i])) continue;
    auto [tangent, value] = tracer.make_input(tangent_spec(joint.results[i]));
    joint.owned.insert(value);  // a tangent is the engine's: a gradient must not be it
    Input input;
    input.value = value;
    input.kind = InputKind::tangent;
    input.index = static_cast<int32_t>(i);
    backward.tangents.push_back(std::move(input));
    outputs.push_back(joint.results[i]);
    tangents.push_back(std::move(tangent));
  }
  if (outputs.empty()) return backward;
  for (size_t i = 0; i < tracer.roots().size(); ++i) {
    if (!tracer.roots()[i].wrapper.requires_grad()) continue;
    inputs.push_back(tracer.roots()[i].wrapper);
    input_roots.push_back(static_cast<int32_t>(i));
  }
  tracer.phase = Phase::backward;
  auto gradients = torch::autograd::grad(outputs, inputs, tangents, /*retain_graph=*/std::nullopt,
                                         /*create_graph=*/false, /*allow_unused=*/true);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < gradients.size(); ++i) {
    Output output;
    output.kind = OutputKind::gradient;
    output.index = input_roots[i];
    if (gradients[i].defined()) {
      output.value = owning_gradient(joint, std::move(gradients[i]));
    }
    backward.gradients.push_back(output);
  }
  return backward;
}

// The backward, or why there is none: then the graph is cut back to the forward.
Backward try_backward(Joint& joint, Captured& captured) {
  auto& graph = joint.tracer.graph;
  const auto nodes = graph.nodes.size();
  const auto tokens = joint.tracer.generator_tokens;
  const auto effects = joint.tracer.effect_tokens;
  try {
    return run_backward(joint);
  } catch (...) {
    captured.backward_error = std::current_exception();
    graph.nodes.resize(nodes);
    joint.tracer.generator_tokens = tokens;
    joint.tracer.effect_tokens = effects;
    joint.tracer.generator_tokens.resize(joint.tracer.tables.generators.size(),
                                         {kNoValue, kNoValue});
    return {};
  }
}

void write_records(Joint& joint, std::vector<Output> mutations, Backward backward) {
  auto& tracer = joint.tracer;
  auto& graph = tracer.graph;
  std::unordered_map<const void*, int32_t> alias_class;
  for (auto& root : tracer.roots()) {
    Input input;
    input.value = root.value;
    input.kind = InputKind::primal;
    input.source = root.source;
    input.requires_grad = root.real.requires_grad();
    if (root.real.has_storage()) {
      const auto [it, _] =
          alias_class.emplace(root.real.storage().unsafeGetStorageImpl(), root.value);
      graph.value(root.value).alias_class = it->second;
    }
    graph.inputs.push_back(std::move(input));
  }
  for (const auto& mutation : mutations) {
    graph.inputs[static_cast<size_t>(mutation.index)].mutates_data = true;
  }
  graph.outputs = std::move(joint.outputs);
  graph.outputs.insert(graph.outputs.end(), mutations.begin(), mutations.end());
  const auto write_tokens = [&](std::pair<ValueId, ValueId> chain, InputKind in, OutputKind out,
                                int32_t index) {
    if (chain.first == kNoValue) return;
    Input input;
    input.value = chain.first;
    input.kind = in;
    input.index = index;
    graph.inputs.push_back(std::move(input));
    Output output;
    output.value = chain.second;
    output.kind = out;
    output.index = index;
    graph.outputs.push_back(output);
  };
  for (size_t g = 0; g < tracer.generator_tokens.size(); ++g) {
    write_tokens(tracer.generator_tokens[g], InputKind::generator_token,
                 OutputKind::generator_token, static_cast<int32_t>(g));
  }
  write_tokens(tracer.effect_tokens, InputKind::effect_token, OutputKind::effect_token, -1);
  for (auto& tangent : backward.tangents) graph.inputs.push_back(std::move(tangent));
  for (auto& gradient : backward.gradients) graph.outputs.push_back(gradient);
}

}  // namespace

void finish_joint(Tracer& tracer, std::vector<at::Tensor> results, Captured& captured) {
  Joint joint{tracer, std::move(results), {}, {}, {}};
  for (auto& result : joint.results) {
    result = tracer.lift(result);  // a closure tensor that no operator met
  }
  for (size_t i = 0; i < tracer.roots().size(); ++i) {
    joint.root_storage.emplace(tracer.roots()[i].value, static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < joint.results.size(); ++i) {
    joint.outputs.push_back(describe_result(joint, i));
  }
  auto mutations = find_mutations(joint);
  for (const auto& mutation : mutations) joint.owned.insert(storage_of(joint, mutation.value));
  auto backward = try_backward(joint, captured);
  write_records(joint, std::move(mutations), std::move(backward));
  captured.joint = std::move(tracer.graph);
  captured.tables = std::move(tracer.tables);
  for (auto& root : tracer.roots()) {
    captured.primals.push_back(root.real);
    root.wrapper = at::Tensor();
  }
}

}  // namespace antegrad::capture
