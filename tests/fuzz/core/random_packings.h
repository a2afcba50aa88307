#pragma once

/// \file
/// Random packings of saved values in random graphs. Inlined into the halves, they check what plans
/// predict about packings.

#include <cmath>
#include <map>
#include <string>

#include <fmt/format.h>

#include "cost/machine.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "partition/hooks/hooks.h"
#include "partition/hooks/packings.h"

namespace antegrad::testing {

inline Graph part_of(const std::string& sections) {
  return parse_graph("antegrad.graph 1 \"part\"\n" + sections, "part");
}

/// Two ways: a cast after a temporary, and a cast with a scale beside it, which unpacking
/// multiplies with.
inline HookedTensor packing_graphs(const Graph& graph, ValueId id, int way) {
  const auto text = [](TensorMeta meta, DType dtype) {
    Value value;
    meta.dtype = dtype;
    value.meta = meta;
    return value_text(value);
  };
  const TensorMeta& meta = graph.value(id).meta;
  const std::string whole = text(meta, meta.dtype), half = text(meta, DType::f16);
  const auto cast_of = [](std::string_view from, std::string_view to) {
    return fmt::format("aten::_to_copy.default({}, {}, none, none, none, false, none)", from, to);
  };
  const std::string dtype(name(meta.dtype));
  HookedTensor hooked;
  hooked.value = id;
  if (way == 0) {
    hooked.pack = part_of(
        fmt::format("inputs\n  %0: {} primal argument 0\nnodes\n  %1: {} = aten::neg.default(%0)\n"
                    "  %2: {} = {}\noutputs\n  %2 result\n",
                    whole, whole, half, cast_of("%1", "f16")));
    hooked.unpack =
        part_of(fmt::format("inputs\n  %0: {} primal argument 0\nnodes\n  %1: {} = {}\n"
                            "  %2: {} = aten::neg.default(%1)\noutputs\n  %2 result\n",
                            half, whole, cast_of("%0", dtype), whole));
  } else {
    hooked.pack =
        part_of(fmt::format("inputs\n  %0: {} primal argument 0\nnodes\n  %1: {}[] = "
                            "aten::amax.default(%0, [], false)\n"
                            "  %2: {} = {}\noutputs\n  %2 result\n  %1 result\n",
                            whole, dtype, half, cast_of("%0", "f16")));
    hooked.unpack = part_of(fmt::format(
        "inputs\n  %0: {} primal argument 0\n  %1: {}[] primal argument 1\nnodes\n  %2: {} = {}\n"
        "  %3: {} = aten::mul.Tensor(%2, %1)\noutputs\n  %3 result\n",
        half, dtype, whole, cast_of("%0", dtype), whole));
  }
  return hooked;
}

inline PackCost cost_of(const Graph& graph, ValueId id, int way, const ByteRules& rules) {
  return pack_cost(packing_graphs(graph, id, way), machine_named("cpu"), rules);
}

/// For some of the values that can be packed: one way, or several to choose from.
inline Packings random_packings(const Graph& graph, const ByteRules& rules, bool always) {
  Packings packings;
  packings.ways = {"cast", "scaled"};
  packings.always = always;
  for (const ValueId id : graph.values.ids()) {
    const Value& value = graph.value(id);
    const bool can = can_be_hooked(graph, id) && is_floating(value.meta.dtype);
    const int32_t number = id.number();
    if (!can || number % 5 == 0) continue;
    for (int32_t way = 0; way < 2; ++way) {
      if (always ? way != number % 2 : (number + way) % 3 == 0) continue;
      packings.entries.push_back({id, way, cost_of(graph, id, way, rules)});
    }
  }
  return packings;
}

/// Inlines packings into the halves for the values saved there. Returns the picoseconds that they
/// take.
inline int64_t pack(Partition& partition, const std::map<ValueId, int>& packed) {
  Hooked hooked;
  hooked.next_node = 100'000;
  int64_t time = 0;
  for (const SavedSlot& saved : partition.plan.saved) {
    const auto it = packed.find(saved.value);
    if (it == packed.end()) continue;
    hooked.tensors.push_back(packing_graphs(partition.forward, saved.value, it->second));
    time += std::llround(cost_of(partition.forward, saved.value, it->second, {}).seconds * 1e12);
  }
  apply_hooks(partition, hooked);
  return time;
}

}  // namespace antegrad::testing
