#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/generated_node.h"
#include "graph/verify_rules.h"

namespace antegrad::verify_detail {
namespace {

void inputs_own_their_storage(Facts& facts) {
  const Graph& graph = facts.graph;
  for (const Input& input : graph.inputs) {
    // Arguments that share memory have one alias class, or are views of one base.
    if (graph.is_tensor(input.value) && !graph.owns_storage(input.value)) {
      fail(fmt::format("the input %{} has the storage {}", input.value,
                       graph.value(input.value).storage));
    }
  }
}

/// An output of a generated kernel may lie in the memory of an input.
void generated_outputs_share_with_inputs(const Graph& graph, const Node& node) {
  for (const ValueId output : node.outputs) {
    const bool shares = std::ranges::any_of(node.inputs, [&](ValueId input) {
      return graph.value(input).storage == graph.value(output).storage;
    });
    if (!shares && !graph.owns_storage(output)) {
      fail(graph, node, fmt::format("%{} has the storage of no input", output));
    }
  }
}

void only_views_share_storage(Facts& facts) {
  const Graph& graph = facts.graph;
  for (const Node& node : graph.nodes) {
    if (is_generated(node)) {
      generated_outputs_share_with_inputs(graph, node);
      continue;
    }
    const OpTraits& traits = node.op.traits();
    // An in-place operator returns the tensor that it wrote, and possibly further new tensors.
    bool shares = traits.view || traits.mutates;
    for (const ValueId output : node.outputs) {
      if (!graph.is_tensor(output)) continue;
      const StorageId storage = graph.value(output).storage;
      if (shares) {
        if (node.inputs.empty() || !graph.is_tensor(node.inputs[0]) ||
            graph.value(node.inputs[0]).storage != storage) {
          fail(graph, node, fmt::format("%{} has another storage than input 0", output));
        }
        shares = traits.view;
      } else if (!graph.owns_storage(output)) {
        fail(graph, node, fmt::format("%{} is new and has the storage {}", output, storage));
      }
    }
  }
}

void storage_is_not_read_after_it_was_overwritten(Facts& facts) {
  const Graph& graph = facts.graph;
  // By storage: position of the last in-place node that wrote it.
  std::unordered_map<StorageId, int32_t> written;
  const auto stale = [&](ValueId id) {
    if (!graph.is_tensor(id)) return false;
    const auto found = written.find(graph.value(id).storage);
    return found != written.end() && facts.definition[id] < found->second;
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId input : node.inputs) {
      if (stale(input)) fail(graph, node, fmt::format("%{} was overwritten", input));
    }
    if (node.op.traits().mutates && !node.inputs.empty() && graph.is_tensor(node.inputs[0])) {
      written[graph.value(node.inputs[0]).storage] = static_cast<int32_t>(i);
    }
    if (!is_generated(node)) continue;
    for (const ValueId output : node.outputs) {
      if (!graph.owns_storage(output))
        written[graph.value(output).storage] = static_cast<int32_t>(i);
    }
  }
  if (written.empty()) return;
  for (const Output& output : graph.outputs) {
    if (stale(output.value)) fail(fmt::format("the output %{} was overwritten", output.value));
  }
}

/// Not a view: the program may transfer its storage.
bool owns_storage(const Facts& facts, ValueId id) {
  if (facts.graph.owns_storage(id)) return true;
  const Node* producer = facts.producer(id);
  if (producer == nullptr) return false;
  return is_generated(*producer) || (producer->op.traits().mutates && !producer->op.traits().view);
}

void saved_values_own_their_storage(Facts& facts) {
  IdMap<ValueId, bool> saved(facts.graph.values.size(), false);
  for (const Output& output : facts.graph.outputs) {
    if (output.kind != OutputKind::saved || !facts.graph.is_tensor(output.value)) continue;
    if (!owns_storage(facts, output.value)) {
      fail(fmt::format("%{} is a view of storage {}", output.value,
                       facts.graph.value(output.value).storage));
    }
    if (saved[output.value]) fail(fmt::format("%{} is saved twice", output.value));
    saved[output.value] = true;
  }
}

void shared_results_say_so(Facts& facts) {
  const Graph& graph = facts.graph;
  IdMap<StorageId, bool> taken(graph.values.size(), false);
  for (const Input& input : graph.inputs) {
    if (graph.is_tensor(input.value)) taken[graph.value(input.value).storage] = true;
  }
  for (const Output& output : graph.outputs) {
    if (!handed_out(output.kind) || !graph.is_tensor(output.value)) continue;
    if (output.alias.kind != OutputAlias::Kind::none) continue;
    const StorageId storage = graph.value(output.value).storage;
    if (taken[storage]) {
      fail(
          fmt::format("the result %{} shares storage {} with an input or another result and has "
                      "no alias record",
                      output.value, storage));
    }
    taken[storage] = true;
  }
}

void gradients_share_nothing(Facts& facts) {
  const Graph& graph = facts.graph;
  enum class Holder : uint8_t { nobody, primal, result, gradient };
  constexpr std::string_view kHolders[] = {"nobody", "a primal", "a result", "another gradient"};
  IdMap<StorageId, Holder> holder(graph.values.size(), Holder::nobody);
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::primal) holder[StorageId(input.value)] = Holder::primal;
  }
  for (const Output& output : graph.outputs) {
    if (!handed_out(output.kind) || !graph.is_tensor(output.value)) continue;
    holder[graph.value(output.value).storage] = Holder::result;
  }
  IdMap<StorageId, bool> tangent(graph.values.size(), false);
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::tangent) tangent[StorageId(input.value)] = true;
  }
  for (const Output& output : graph.outputs) {
    if (output.kind != OutputKind::gradient || !graph.is_tensor(output.value)) continue;
    const StorageId storage = graph.value(output.value).storage;
    if (storage.valid() && tangent[storage]) continue;  // handed on
    Holder& current = holder[storage];
    if (current != Holder::nobody) {
      fail(fmt::format("the gradient %{} of input {} shares its storage with {}", output.value,
                       output.index, kHolders[static_cast<size_t>(current)]));
    }
    current = Holder::gradient;
  }
}

}  // namespace

constexpr Rules storage_rules = {
    {"an input owns its storage", inputs_own_their_storage},
    {"views and in-place operators share storage with input 0, generated kernels with any, all "
     "others "
     "own theirs",
     only_views_share_storage},
    {"nothing is read after it was overwritten", storage_is_not_read_after_it_was_overwritten},
    {"a saved value owns its storage and is saved once", saved_values_own_their_storage},
    {"a result that shares storage has an alias record", shared_results_say_so},
    {"a gradient shares storage with no primal, result or other gradient", gradients_share_nothing},
};

}  // namespace antegrad::verify_detail
