#include "hooks/captured_hooks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost/machine.h"
#include "graph/call_plan.h"
#include "graph/text.h"
#include "ops/number.h"

namespace antegrad::hooks {
namespace {

// Why the filter excludes a saved tensor; "" if the hooks replace it.
class Filter {
 public:
  Filter(const Graph& graph, HookFilter mode)
      : graph_(graph), mode_(mode), owners_(storage_owners(graph)) {
    for (const auto& input : graph.inputs) {
      if (ops::is_number(input)) numbers_.insert(input.value);
      if (input.storage == InputStorage::empty) empty_.insert(input.value);
    }
  }

  std::string why_not(ValueId id) const {
    if (numbers_.contains(id)) return "it is a number, not a tensor";
    if (empty_.contains(id)) return "its storage has no memory in the forward";
    if (!can_be_hooked(graph_, id)) return "it does not fill its memory";
    if (mode_ == HookFilter::all) return "";
    const auto owner = owners_[graph_.value(id).storage];
    if (owner == Owner::held) return "it is a parameter, a buffer or held by the callable";
    if (mode_ == HookFilter::no_static || owner == Owner::program) return "";
    return owner == Owner::argument ? "it is an argument" : "it is a result";
  }

 private:
  const Graph& graph_;
  const HookFilter mode_;
  const IdMap<StorageId, Owner> owners_;
  std::set<ValueId> numbers_;
  std::set<ValueId> empty_;
};

bool change_nothing(const HookedTensor& tensor) {
  const auto hands_through = [](const Graph& part) {
    return part.outputs.size() == 1 && part.outputs.front().value == part.inputs.front().value;
  };
  return hands_through(tensor.pack) && hands_through(tensor.unpack);
}

CapturedHooks with_objects_of(const HookCaptures& captures, CapturedHooks captured) {
  captured.hooked.object_names = captures.objects().names;
  captured.objects = captures.objects().values;
  return captured;
}

std::string packed_text(const Graph& forward, const HookedTensor& tensor) {
  std::string text;
  for (const auto& output : tensor.pack.outputs) {
    text += (text.empty() ? "" : ", ") + meta_text(tensor.pack.value(output.value).meta);
  }
  return fmt::format("%{}: {} as {}", tensor.value, value_text(forward.value(tensor.value)), text);
}

}  // namespace

CapturedHooks capture_hooks(HookCaptures& hooks, const Partition& partition, HookFilter filter,
                            int32_t first_node) {
  const auto& forward = partition.forward;
  const Filter names(forward, filter);
  CapturedHooks captured;
  captured.hooked.next_node = first_node;
  captured.names = hooks.pair().options.name;
  for (const auto& saved : partition.plan.saved) {
    const auto& value = forward.value(saved.value);
    if (value.kind != ValueKind::tensor) continue;
    if (auto why = names.why_not(saved.value); !why.empty()) {
      captured.not_hooked_texts.push_back(
          fmt::format("%{}: {}: {}", saved.value, value_text(value), std::move(why)));
      continue;
    }
    auto tensor = hooks.on(value.meta);
    if (change_nothing(tensor)) {
      captured.not_hooked_texts.push_back(
          fmt::format("%{}: {}: the hooks do not change it", saved.value, value_text(value)));
      continue;
    }
    tensor.value = saved.value;
    captured.hooked_texts.push_back(packed_text(forward, tensor));
    captured.hooked.tensors.push_back(std::move(tensor));
  }
  return with_objects_of(hooks, std::move(captured));
}

ops::AttrTables with_objects(ops::AttrTables tables, const std::vector<c10::IValue>& objects) {
  tables.opaques.insert(tables.opaques.end(), objects.begin(), objects.end());
  return tables;
}

CapturedHooks capture_packed(std::span<HookCaptures> ways, const Partition& partition,
                             int32_t first_node) {
  const auto& forward = partition.forward;
  CapturedHooks captured;
  captured.hooked.next_node = first_node;
  std::set<std::string> names;
  for (const auto& saved : partition.plan.saved) {
    const auto it = partition.packed.find(saved.value);
    if (it == partition.packed.end()) continue;
    auto& way = ways[it->second];
    auto tensor = way.on(forward.value(saved.value).meta);
    tensor.value = saved.value;
    names.insert(way.pair().options.name);
    captured.hooked_texts.push_back(packed_text(forward, tensor) + " (" + way.pair().options.name +
                                    ")");
    captured.hooked.tensors.push_back(std::move(tensor));
  }
  captured.names = fmt::format("{}", fmt::join(names, ", "));
  return with_objects_of(ways.front(), std::move(captured));
}

Packings weigh(std::span<HookCaptures> ways, bool always, const Graph& joint, HookFilter filter,
               const Machine& machine, const ByteRules& rules) {
  Packings packings;
  packings.always = always;
  for (const auto& way : ways) packings.ways.push_back(way.pair().options.name);
  const Filter names(joint, filter);
  std::vector<ValueId> candidates;
  for (const auto& node : joint.nodes) {
    for (const auto id : node.outputs) {
      if (joint.is_tensor(id) && joint.owns_storage(id) && names.why_not(id).empty()) {
        candidates.push_back(id);
      }
    }
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<std::pair<size_t, TensorMeta>> refused;
  for (const auto id : candidates) {
    for (size_t way = 0; way < ways.size(); ++way) {
      const std::pair key(way, joint.value(id).meta);
      if (std::find(refused.begin(), refused.end(), key) != refused.end()) continue;
      try {
        const auto& tensor = ways[way].on(key.second);
        if (change_nothing(tensor)) continue;
        packings.entries.push_back(
            {id, static_cast<int32_t>(way), pack_cost(tensor, machine, rules)});
      } catch (const std::exception&) {
        refused.push_back(key);  // if it is saved, capture_hooks() reports the error
      }
    }
  }
  return packings;
}

}  // namespace antegrad::hooks
