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

double roofline(const NodeCost& cost, const Machine& machine) {
  return std::max({static_cast<double>(cost.flops) / machine.flops_per_second,
                   static_cast<double>(cost.bytes) / machine.bytes_per_second,
                   static_cast<double>(cost.host_bytes) / machine.host_bytes_per_second});
}

double seconds(const NodeCost& cost, const Machine& machine) {
  return cost == NodeCost{} ? 0 : roofline(cost, machine) + machine.seconds_per_node;
}

std::vector<double> node_seconds(const Graph& graph, const std::vector<int64_t>& symbols,
                                 const Machine& machine, const Measurements& measured) {
  std::vector<KernelTime> times;
  times.reserve(graph.nodes.size());
  KernelTime sum;
  for (const Node& node : graph.nodes) {
    auto time = kernel_time(graph, node, symbols, machine.rates);
    if (!time) time = KernelTime{seconds(node_cost(graph, node, symbols), machine)};
    sum.seconds += time->seconds;
    sum.call_seconds += time->call_seconds;
    times.push_back(*time);
  }
  const bool host_bound = sum.call_seconds > sum.seconds;
  std::vector<double> all;
  all.reserve(times.size());
  for (const KernelTime& time : times) {
    all.push_back(host_bound ? std::max(time.seconds, time.call_seconds) : time.seconds);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto id = static_cast<size_t>(graph.nodes[i].id);  // -1 in graphs without ids
    if (id < measured.seconds.size() && measured.seconds[id] >= 0) all[i] = measured.seconds[id];
  }
  return all;
}

std::string_view machine_of(const Graph& graph) {
  const bool on_gpu = std::ranges::any_of(graph.values, [](const Value& value) {
    return value.kind == ValueKind::tensor && value.meta.device.kind == DeviceKind::cuda;
  });
  return on_gpu ? "gpu" : "cpu";
}

const Machine& machine_named(std::string_view name, const Graph& graph) {
  return machine_named(name.empty() ? machine_of(graph) : name);
}

std::vector<double> node_seconds(const Graph& graph, const std::vector<int64_t>& symbols,
                                 std::string_view machine, const Measurements& measured) {
  return node_seconds(graph, symbols, machine_named(machine, graph), measured);
}

}  // namespace antegrad
