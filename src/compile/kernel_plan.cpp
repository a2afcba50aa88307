#include "compile/kernel_plan.h"

#include <algorithm>
#include <utility>

#include "cost/machine.h"
#include "fusion/fused_nodes.h"
#include "graph/analysis.h"
#include "graph/generated_node.h"
#include "partition/hooks/hooks.h"
#include "passes/reinplace.h"

namespace antegrad::compiler {
namespace {

// The partition with these graphs, whose nodes write in place where they can.
Partition run_in_place(Partition partition, Graph forward, Graph backward) {
  const auto updated = updated_primals(forward);
  partition.forward = reinplace(std::move(forward), updated);
  const auto donated = in_backward(backward, partition.plan.donated(), partition.forward_values);
  partition.backward = reinplace(std::move(backward), donated);
  return partition;
}

IdMap<ValueId, bool> outputs_of(const Graph& graph) {
  IdMap<ValueId, bool> found(graph.values.size(), false);
  for (const auto& output : graph.outputs) {
    if (output.value != kNoValue) found[output.value] = true;
  }
  return found;
}

// Marks fused nodes of `before` whose results a node of `lowered` writes to memory.
void note_in_memory(const Graph& before, const Graph& lowered, const ByteRules& rules,
                    std::vector<bool>& in_memory) {
  const auto made_by = producers(before);
  const auto kept = outputs_of(before);
  for (const auto& node : lowered.nodes) {
    if (node.op.traits().view) continue;
    for (const auto value : node.outputs) {
      if (value == kNoValue || made_by[value] < 0 || kept[value]) continue;
      const auto id = before.nodes[made_by[value]].id;
      if (is_fused(id, rules)) in_memory[id] = true;
    }
  }
}

// See WithKernels::at_peak. `before` was lowered with these kernels; `position` is in `lowered`.
LargeGroups groups_around(const Graph& before, const std::vector<lower::KernelOfGroup>& kernels,
                          const Graph& lowered, int32_t position) {
  // Where nodes stood. A node that is no kernel still makes the same values.
  const auto made_by = producers(before);
  const auto place = [&](const Node& node) {
    if (is_generated(node)) return kernels[place_of_kernel(node)].nodes.back();
    const auto made = std::ranges::find_if(
        node.outputs, [&](ValueId id) { return id != kNoValue && made_by[id] >= 0; });
    return made == node.outputs.end() ? -1 : made_by[*made];
  };
  const auto peak = place(lowered.nodes[position]);
  LargeGroups found;
  for (const auto& [nodes, kernel] : kernels) {
    if (nodes.front() > peak || peak > nodes.back()) continue;
    const auto earlier = std::ranges::find_if(nodes.rbegin(), nodes.rend(),
                                              [&](int32_t position) { return position <= peak; });
    found.emplace(ids_of(before, nodes), before.nodes[*earlier].id);
  }
  return found;
}

}  // namespace

void count_on_kernels(const Graph& joint, std::vector<bool> fused, const Measurements& measured,
                      PartitionChoice& choice) {
  choice.fused = std::move(fused);
  choice.measured = measured;
  const bool none = std::ranges::find(choice.fused, true) == choice.fused.end();
  if (none) {
    choice.fused.clear();
    return;
  }
  // Measured times are those of nodes one by one. A model says which part of them is left.
  const auto machine = machine_of(joint);
  const auto alone = node_seconds(joint, choice.symbols, choice.machine, measured);
  const auto modelled = node_seconds(joint, choice.symbols, machine);
  const auto in_kernels = fused_seconds(joint, choice.fused, machine, choice.symbols);
  auto& seconds = choice.measured.seconds;
  seconds.assign(in_kernels.size(), -1);
  for (size_t i = 0; i < joint.nodes.size(); ++i) {
    const auto id = joint.nodes[i].id;
    const auto left = modelled[i] > 0 ? std::min(1.0, in_kernels[id] / modelled[i]) : 1;
    seconds[id] = alone[i] * left;
  }
}

void expect_kernels(const Graph& joint, PartitionChoice& choice) {
  choice.fused = fused_nodes(joint, choice.symbols);
  choice.measured.seconds = fused_seconds(joint, choice.fused, machine_of(joint), choice.symbols);
}

bool refuse(const LargeGroups& groups, LoweringRules& lowering) {
  const auto before = lowering.too_large.size();
  lowering.too_large.insert(groups.begin(), groups.end());
  return lowering.too_large.size() > before;
}

int64_t peak_without_kernels(const Partition& partition, const ByteRules& rules) {
  return simulate(run_in_place(partition, partition.forward, partition.backward), rules).peak_bytes;
}

WithKernels with_kernels(const Partition& partition, const LoweringRules& lowering,
                         ByteRules rules) {
  WithKernels found{.in_memory = std::vector<bool>(rules.fused.size(), false)};
  auto forward = lowered_by_what_is_known(partition.forward, lowering);
  auto backward = lowered_by_what_is_known(partition.backward, lowering);
  note_in_memory(partition.forward, forward.graph, rules, found.in_memory);
  note_in_memory(partition.backward, backward.graph, rules, found.in_memory);
  const auto lowered = run_in_place(partition, std::move(forward.graph), std::move(backward.graph));
  rules.fused.clear();
  const auto timeline = simulate(lowered, rules);
  found.peak = timeline.peak_bytes;
  const auto in_forward = static_cast<int32_t>(lowered.forward.nodes.size());
  const bool backwards = timeline.peak_position >= in_forward;
  if (timeline.peak_position >= 0) {
    found.at_peak = backwards ? groups_around(partition.backward, backward.kernels,
                                              lowered.backward, timeline.peak_position - in_forward)
                              : groups_around(partition.forward, forward.kernels, lowered.forward,
                                              timeline.peak_position);
  }
  return found;
}

}  // namespace antegrad::compiler
