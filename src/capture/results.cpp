#include "capture/results.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <antegrad/error.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "capture/handed_out.h"
#include "capture/libtorch_errors.h"
#include "capture/shared_memory.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

// Changes that the callable made to an input.
struct Mutation {
  int32_t root;
  bool data;
  bool metadata;
  Output output;  // its new value
};

// The wrapper does not show it, since libtorch only changes the offset of the inner tensor. A new
// value of the memory starts at 0.
bool starts_elsewhere(const Root& root) {
  at::functionalization::impl::sync(root.wrapper);
  const auto* inside = inside_wrapper(root.wrapper);
  return inside->storage_offset() != (was_written(root) ? 0 : root.real.storage_offset());
}

bool has_new_metadata(const Root& root) {
  const auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(root.wrapper);
  if (!wrapper->has_metadata_mutation()) return false;
  return root.wrapper.sizes() != root.real.sizes() ||
         root.wrapper.strides() != root.real.strides() || (root.base < 0 && starts_elsewhere(root));
}

void require_covered(const Root& root, bool metadata) {
  auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(root.wrapper);
  const auto refuse = [](const char* found) {
    throw MutationError("", {"inputs that keep their storage, and their sizes and strides when "
                             "they are views",
                             found, "change it before the call"});
  };
  if (wrapper->was_storage_changed()) refuse("an input that the callable resizes or re-sets");
  if (metadata && (root.base >= 0 || root.real.is_view())) {
    refuse("a view whose sizes or strides the callable changes");
  }
  if (metadata && starts_elsewhere(root)) {
    refuse("an input that the callable makes start elsewhere in its storage");
  }
  if (metadata && at::GradMode::is_enabled() && root.real.requires_grad() &&
      !has_new_history(root) && root.wrapper.sizes() != root.real.sizes()) {
    // Its gradient would get the new sizes, also along paths computed before.
    refuse("an input that requires grad and whose sizes the callable changes with grad mode off");
  }
}

std::vector<Mutation> find_mutations(Tracer& tracer) {
  std::vector<Mutation> mutations;
  auto& roots = tracer.roots();
  for (size_t i = 0; i < roots.size(); ++i) {
    auto& root = roots[i];
    const bool written = root.base < 0 && was_written(root);
    const bool metadata = has_new_metadata(root);
    const bool history = !root.follows_base && has_new_history(root);
    require_covered(root, metadata);
    if (!written && !metadata && !history) continue;
    if (root.source.kind == Source::Kind::constant) continue;  // the program's own, reset each time
    const auto value = tracer.value_of(root.wrapper);
    const bool data = written && value != root.value;
    if (!data && !metadata && !history) continue;
    auto& output =
        mutations.emplace_back(Mutation{static_cast<int32_t>(i), data, metadata, {}}).output;
    output.value = value;
    output.kind = OutputKind::mutated_input;
    output.index = static_cast<int32_t>(i);
    output.requires_grad = history;
  }
  return mutations;
}

// Marks outputs from which others were computed, and roots that are views of such outputs.
void mark_inner(Tracer& tracer, const std::vector<at::Tensor>& tensors,
                std::vector<Output>& outputs) {
  if (tensors.size() < 2) return;
  std::unordered_set<const torch::autograd::Node*> reached;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].differentiable()) continue;
    const auto history = torch_compat::history_of(tensors[i]);
    reached.insert(history.begin(), history.end());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto kind = outputs[i].alias.kind;
    if (outputs[i].value == kNoValue || kind == OutputAlias::Kind::same_as_output) continue;
    outputs[i].inner = reached.contains(torch_compat::function_of(tensors[i]));
  }
  // Their gradients are whole where passes stop.
  for (const auto& cut : tracer.cut.results) {
    if (cut.probe < 0) continue;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (tensors[i].defined() && tensors[i].is_same(cut.tensor)) outputs[i].inner = false;
    }
  }
  for (auto& root : tracer.roots()) {
    root.inner = root.follows_base && torch_compat::has_history_of_base(root.wrapper) &&
                 reached.contains(torch_compat::function_of(root.wrapper));
  }
}

// The backward, or the reason why there is none. In that case the graph is cut back to the forward.
Backward try_backward(Tracer& tracer, const std::vector<at::Tensor>& tensors,
                      const std::vector<Output>& outputs, const Request& request,
                      Captured& captured) {
  auto& graph = tracer.graph;
  const auto nodes = graph.nodes.size();
  const auto tokens = tracer.generator_tokens;
  const auto effects = tracer.effect_tokens;
  const auto bytes = tracer.sizes_of_storages();
  try {
    auto backward = run_backward(tracer, tensors, outputs, request);
    tracer.require_sizes(bytes);
    return backward;
  } catch (...) {
    captured.backward_error = typed_current_exception();
    // A whole step has no backward() that could throw it.
    if (request.update) std::rethrow_exception(captured.backward_error);
    graph.nodes.resize(nodes);
    tracer.generator_tokens = tokens;
    tracer.effect_tokens = effects;
    tracer.generator_tokens.resize(tracer.tables.generators.size(), {kNoValue, kNoValue});
    return {{}, unknown_gradients(tracer, tensors, outputs)};
  }
}

int32_t version_bumps(const Root& root) {
  if (!root.counts_versions) return 0;
  if (!root.wrapper.is_inference()) {
    return static_cast<int32_t>(torch_compat::version_of(root.wrapper) - root.version);
  }
  // In inference mode stand-ins have no versions, so every write counts.
  const auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(root.wrapper);
  return static_cast<int32_t>(wrapper->mutation_counter()) - root.resizes;
}

// By root.
std::vector<InputStorage> find_storages(Tracer& tracer) {
  std::vector<InputStorage> storages;
  for (const auto& root : tracer.roots()) storages.push_back(tracer.storage_of_input(root));
  return storages;
}

// A view checks the bounds of its storage when it is made.
void refuse_views_without_memory(const std::vector<Output>& outputs,
                                 const std::vector<InputStorage>& storages) {
  for (const auto& output : outputs) {
    const auto& alias = output.alias;
    if (!alias.of_input() || alias.kind == OutputAlias::Kind::is_input) continue;
    if (storages[alias.index] != InputStorage::empty) continue;
    throw MutationError(
        "resize_storage_",
        {"results that show memory", "a view of an input whose storage has none when the call ends",
         "return the input itself, or make the view after the call"});
  }
}

void write_inputs(Tracer& tracer, const std::vector<Mutation>& mutations,
                  const std::vector<InputStorage>& storages, bool counts_versions) {
  auto& graph = tracer.graph;
  std::unordered_map<const void*, StorageId> alias_class;
  for (auto& root : tracer.roots()) {
    auto& input = graph.inputs.emplace_back();
    input.value = root.value;
    input.kind = InputKind::primal;
    input.source = root.source;
    input.requires_grad = root.real.requires_grad();
    input.inner = root.inner;
    if (counts_versions) input.version_bumps = version_bumps(root);
    if (const auto* storage = storage_of(root.real)) {
      const auto [it, _] = alias_class.emplace(storage, StorageId(root.value));
      graph.value(root.value).alias_class = it->second;
    }
  }
  for (size_t i = 0; i < storages.size(); ++i) {
    auto& input = graph.inputs[i];
    input.storage = storages[i];
    if (storages[i] == InputStorage::allocates) input.storage_bytes = tracer.roots()[i].bytes;
  }
  for (const auto& mutation : mutations) {
    auto& input = graph.inputs[mutation.root];
    input.mutates_data = mutation.data;
    input.mutates_metadata = mutation.metadata;
  }
}

void write_tokens(Tracer& tracer) {
  auto& graph = tracer.graph;
  const auto write = [&](std::pair<ValueId, ValueId> chain, InputKind in, OutputKind out,
                         int32_t index) {
    if (chain.first == kNoValue) return;
    auto& input = graph.inputs.emplace_back();
    input.value = chain.first;
    input.kind = in;
    input.index = index;
    auto& output = graph.outputs.emplace_back();
    output.value = chain.second;
    output.kind = out;
    output.index = index;
  };
  for (size_t g = 0; g < tracer.generator_tokens.size(); ++g) {
    write(tracer.generator_tokens[g], InputKind::generator_token, OutputKind::generator_token,
          static_cast<int32_t>(g));
  }
  write(tracer.effect_tokens, InputKind::effect_token, OutputKind::effect_token, -1);
}

}  // namespace

void finish_joint(Tracer& tracer, std::vector<at::Tensor> results, const Request& request,
                  Captured& captured) {
  for (auto& result : results) {
    result = tracer.lift(result);  // a closure tensor that no operator received
  }
  auto out = describe_results(tracer, std::move(results));
  auto storages = find_storages(tracer);
  refuse_views_without_memory(out.outputs, storages);
  const auto mutations =
      request.derivatives.empty() ? find_mutations(tracer) : std::vector<Mutation>();
  for (const auto& mutation : mutations) {
    out.tensors.push_back(tracer.roots()[mutation.root].wrapper);
    out.outputs.push_back(mutation.output);
  }
  mark_inner(tracer, out.tensors, out.outputs);
  auto backward = try_backward(tracer, out.tensors, out.outputs, request, captured);
  auto& graph = tracer.graph;
  for (auto i = storages.size(); i < tracer.roots().size(); ++i) {
    storages.push_back(Tracer::began_empty(tracer.roots()[i]) ? InputStorage::empty
                                                              : InputStorage::kept);
  }
  // What the callable leaves behind is dropped with what it writes.
  if (!request.derivatives.empty()) {
    std::ranges::replace_if(
        storages, [](InputStorage storage) { return storage != InputStorage::empty; },
        InputStorage::kept);
  }
  write_inputs(tracer, mutations, storages, /*counts_versions=*/request.derivatives.empty());
  graph.outputs = std::move(out.outputs);
  write_tokens(tracer);
  for (auto& tangent : backward.tangents) graph.inputs.push_back(std::move(tangent));
  for (auto& gradient : backward.gradients) graph.outputs.push_back(gradient);
  captured.joint = std::move(tracer.graph);
  captured.tables = std::move(tracer.tables);
  for (const auto& root : tracer.roots()) {
    captured.primals.push_back(root.real);
    captured.holders.push_back(root.holder);
    captured.follows.push_back(root.follows_base ? root.base : -1);
  }
}

}  // namespace antegrad::capture
