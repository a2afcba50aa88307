#include "explain/stats.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cost/node_cost.h"
#include "fusion/groups.h"
#include "graph/analysis.h"
#include "graph/byte_text.h"
#include "graph/text.h"

namespace antegrad {
namespace {

int64_t owned_bytes(const Graph& graph, ValueId id, const ByteRules& rules) {
  const bool owns = graph.is_tensor(id) && graph.owns_storage(id);
  return owns ? storage_bytes(graph.value(id).meta, rules) : 0;
}

/// Bytes that a saved slot takes.
int64_t bytes_of(const SavedSlot& slot, const Graph& forward, const ByteRules& rules) {
  if (slot.held_by_caller()) return 0;
  if (slot.form != SavedSlot::Form::generator_state) return owned_bytes(forward, slot.value, rules);
  return state_bytes(forward.generators[forward.outputs[slot.index].index], rules);
}

std::string source_text(const Input& input, size_t position) {
  if (!input.source.name.empty()) return input.source.name;
  if (input.source.kind == Source::Kind::argument)
    return fmt::format("argument {}", input.source.index);
  return fmt::format("input {}", position);
}

std::vector<OpCount> count_ops(const Graph& graph, const ByteRules& rules) {
  std::vector<OpCount> ops;
  std::unordered_map<std::string, size_t> index;
  for (const Node& node : graph.nodes) {
    const auto [entry, first] = index.emplace(node.op.name(), ops.size());
    if (first) {
      ops.emplace_back();
      ops.back().op = node.op.name();
    }
    OpCount& count = ops[entry->second];
    ++(node.phase == Phase::forward ? count.forward : count.backward);
    for (const ValueId output : node.outputs) count.bytes += owned_bytes(graph, output, rules);
  }
  std::ranges::stable_sort(ops, [](const OpCount& a, const OpCount& b) {
    return a.forward + a.backward > b.forward + b.backward;
  });
  return ops;
}

std::string table_of_ops(const GraphStats& stats) {
  std::string text =
      fmt::format("\n  {:<56} {:>8} {:>8} {:>12}\n", "operator", "forward", "backward", "made");
  for (const OpCount& op : stats.ops) {
    text += fmt::format("  {:<56} {:>8} {:>8} {:>12}\n", op.op, op.forward, op.backward,
                        bytes_text(op.bytes));
  }
  return text;
}

std::string table_of_saved(const PartitionStats& partition) {
  std::string text = fmt::format(
      "\ndefault partition: {} forward and {} backward nodes ({} run twice)\n"
      "  saved {}, peak {}{}\n\n  {:<8} {:>10}  {:<13} {:<28} {}\n",
      partition.forward_nodes, partition.backward_nodes, partition.recomputed_nodes,
      bytes_text(partition.saved_bytes), bytes_text(partition.peak_bytes),
      partition.peak_op.empty() ? "" : " at " + partition.peak_op, "saved", "bytes", "why",
      "tensor", "made by");
  for (const SavedTensor& saved : partition.saved) {
    text += fmt::format("  {:<8} {:>10}  {:<13} {:<28} {}\n", fmt::format("%{}", saved.value),
                        bytes_text(saved.bytes), saved.why, saved.text, saved.made_by);
  }
  return text;
}

constexpr size_t kLargestGroups = 10;

/// The operators of a group in the order of the graph, with counts of repeated ones.
std::string ops_text(const Graph& graph, const FusionGroup& group) {
  std::string text;
  for (size_t i = 0; i < group.nodes.size();) {
    const auto name_at = [&](size_t k) -> const std::string& {
      return graph.nodes[group.nodes[k]].op.info().base_name;
    };
    size_t end = i + 1;
    while (end < group.nodes.size() && name_at(end) == name_at(i)) ++end;
    text += (text.empty() ? "" : ", ") + name_at(i);
    if (end - i > 1) text += fmt::format(" {}x", end - i);
    i = end;
  }
  return text;
}

std::string table_of_groups(const FusionStats& fusion) {
  std::string text = fmt::format(
      "\nfusion groups: {} kernels, of which {} could be generated; antegrad explain --kernels "
      "tells which are\n"
      "  would read and write {} instead of {}; intermediates of {} would not be written\n",
      fusion.kernels, fusion.generated, bytes_text(fusion.bytes), bytes_text(fusion.bytes_unfused),
      bytes_text(fusion.bytes_vanished));
  if (fusion.largest.empty()) return text;
  text += fmt::format("\n  {:>10} {:>10} {:>10} {:>6}  {}\n", "vanish", "read", "written", "nodes",
                      "operators");
  for (const GroupStats& group : fusion.largest) {
    text += fmt::format("  {:>10} {:>10} {:>10} {:>6}  {}\n", bytes_text(group.bytes_vanished),
                        bytes_text(group.bytes_read), bytes_text(group.bytes_written), group.nodes,
                        group.text);
  }
  return text;
}

nlohmann::json json_of(const FusionStats& fusion) {
  nlohmann::json largest = nlohmann::json::array();
  for (const GroupStats& group : fusion.largest) {
    largest.push_back({{"operators", group.text},
                       {"nodes", group.nodes},
                       {"bytes_read", group.bytes_read},
                       {"bytes_written", group.bytes_written},
                       {"bytes_vanished", group.bytes_vanished}});
  }
  return {{"kernels", fusion.kernels},
          {"generated", fusion.generated},
          {"bytes", fusion.bytes},
          {"bytes_vanished", fusion.bytes_vanished},
          {"bytes_unfused", fusion.bytes_unfused},
          {"largest", std::move(largest)}};
}

}  // namespace

FusionStats fusion_stats(const Graph& graph, const std::vector<int64_t>& symbols) {
  const FusionGroups found = fusion_groups(graph, symbols);
  FusionStats stats;
  stats.kernels = static_cast<int64_t>(found.groups.size());
  for (const Node& node : graph.nodes) stats.bytes_unfused += node_cost(graph, node, symbols).bytes;
  for (const FusionGroup& group : found.groups) {
    if (group.generated) ++stats.generated;
    stats.bytes += group.bytes_read + group.bytes_written;
    stats.bytes_vanished += group.bytes_vanished;
    if (group.nodes.size() < 2) continue;
    stats.largest.push_back({ops_text(graph, group), static_cast<int64_t>(group.nodes.size()),
                             group.bytes_read, group.bytes_written, group.bytes_vanished});
  }
  std::ranges::stable_sort(stats.largest, [](const GroupStats& a, const GroupStats& b) {
    return std::pair(a.bytes_vanished, a.nodes) > std::pair(b.bytes_vanished, b.nodes);
  });
  stats.largest.resize(std::min(stats.largest.size(), kLargestGroups));
  return stats;
}

PartitionStats partition_stats(const Partition& partition, const ByteRules& rules) {
  const Graph& forward = partition.forward;
  PartitionStats stats;
  stats.forward_nodes = static_cast<int64_t>(forward.nodes.size());
  stats.backward_nodes = static_cast<int64_t>(partition.backward.nodes.size());
  stats.recomputed_nodes = std::ranges::count_if(
      partition.backward.nodes, [](const Node& node) { return node.phase == Phase::forward; });
  const Timeline timeline = simulate(partition, rules);
  stats.saved_bytes = timeline.saved_bytes;
  stats.peak_bytes = timeline.peak_bytes;
  if (timeline.peak_position >= 0) {
    stats.peak_op = timeline.points[timeline.peak_position].op.name();
  }
  const IdMap<ValueId, int32_t> producer = producers(forward), input = input_positions(forward);
  for (const SavedSlot& saved : partition.plan.saved) {
    const ValueId id = saved.value;
    SavedTensor tensor;
    tensor.value = saved.value;
    tensor.text = value_text(forward.value(saved.value));
    tensor.why = std::string(name(saved));
    tensor.bytes = bytes_of(saved, forward, rules);
    if (producer[id] >= 0) {
      tensor.made_by = forward.nodes[producer[id]].op.name();
    } else if (input[id] >= 0) {
      tensor.made_by = source_text(forward.inputs[input[id]], input[id]);
    }
    stats.saved.push_back(std::move(tensor));
  }
  std::ranges::stable_sort(
      stats.saved, [](const SavedTensor& a, const SavedTensor& b) { return a.bytes > b.bytes; });
  return stats;
}

GraphStats graph_stats(const Graph& graph, const ByteRules& rules) {
  GraphStats stats;
  stats.name = graph.name;
  stats.inputs = static_cast<int64_t>(graph.inputs.size());
  stats.outputs = static_cast<int64_t>(graph.outputs.size());
  for (const Input& input : graph.inputs)
    stats.input_bytes += owned_bytes(graph, input.value, rules);
  stats.ops = count_ops(graph, rules);
  for (const OpCount& op : stats.ops) {
    stats.forward_nodes += op.forward;
    stats.backward_nodes += op.backward;
    stats.made_bytes += op.bytes;
  }
  return stats;
}

std::string to_text(const GraphStats& stats) {
  std::string text =
      fmt::format("{}: {} inputs ({}), {} outputs, {} forward and {} backward nodes that make {}\n",
                  stats.name, stats.inputs, bytes_text(stats.input_bytes), stats.outputs,
                  stats.forward_nodes, stats.backward_nodes, bytes_text(stats.made_bytes));
  if (!stats.ops.empty()) text += table_of_ops(stats);
  if (stats.partition) text += table_of_saved(*stats.partition);
  if (stats.fusion) text += table_of_groups(*stats.fusion);
  return text;
}

nlohmann::json to_json(const GraphStats& stats) {
  nlohmann::json ops = nlohmann::json::array();
  for (const OpCount& op : stats.ops) {
    ops.push_back(
        {{"op", op.op}, {"forward", op.forward}, {"backward", op.backward}, {"bytes", op.bytes}});
  }
  nlohmann::json json = {{"name", stats.name},
                         {"inputs", stats.inputs},
                         {"outputs", stats.outputs},
                         {"forward_nodes", stats.forward_nodes},
                         {"backward_nodes", stats.backward_nodes},
                         {"input_bytes", stats.input_bytes},
                         {"made_bytes", stats.made_bytes},
                         {"ops", std::move(ops)}};
  if (stats.fusion) json["fusion"] = json_of(*stats.fusion);
  if (!stats.partition) return json;
  const PartitionStats& partition = *stats.partition;
  nlohmann::json saved = nlohmann::json::array();
  for (const SavedTensor& tensor : partition.saved) {
    saved.push_back({{"value", tensor.value},
                     {"tensor", tensor.text},
                     {"made_by", tensor.made_by},
                     {"why", tensor.why},
                     {"bytes", tensor.bytes}});
  }
  json["default_partition"] = {{"forward_nodes", partition.forward_nodes},
                               {"backward_nodes", partition.backward_nodes},
                               {"recomputed_nodes", partition.recomputed_nodes},
                               {"saved_bytes", partition.saved_bytes},
                               {"peak_bytes", partition.peak_bytes},
                               {"peak_op", partition.peak_op},
                               {"saved", std::move(saved)}};
  return json;
}

}  // namespace antegrad
