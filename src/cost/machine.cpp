#include "cost/machine.h"

#include <algorithm>
#include <string>

#include <antegrad/error.h>

namespace antegrad {

const Machine& machine_named(std::string_view name) {
  if (name == "gpu") return kGpu;
  if (name == "cpu") return kCpu;
  throw OptionError(ErrorText{"the machine cpu or gpu", std::string(name), ""});
}

double seconds(const NodeCost& cost, const Machine& machine) {
  if (cost == NodeCost{}) return 0;
  return std::max({static_cast<double>(cost.flops) / machine.flops_per_second,
                   static_cast<double>(cost.bytes) / machine.bytes_per_second,
                   static_cast<double>(cost.host_bytes) / machine.host_bytes_per_second}) +
         machine.seconds_per_node;
}

std::string_view machine_of(const Graph& graph) {
  const bool on_gpu = std::ranges::any_of(graph.values, [](const Value& value) {
    return value.kind == ValueKind::tensor && value.meta.device.kind == DeviceKind::cuda;
  });
  return on_gpu ? "gpu" : "cpu";
}

std::vector<double> node_seconds(const Graph& graph, const std::vector<int64_t>& symbols,
                                 std::string_view machine, const Measurements& measured) {
  const Machine& known = machine_named(machine.empty() ? machine_of(graph) : machine);
  std::vector<double> all;
  all.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    const auto id = static_cast<size_t>(node.id);  // -1 in graphs without ids
    const bool timed = id < measured.seconds.size() && measured.seconds[id] >= 0;
    all.push_back(timed ? measured.seconds[id] : seconds(node_cost(graph, node, symbols), known));
  }
  return all;
}

}  // namespace antegrad
