#include "explain/chrome_trace.h"

#include <set>
#include <utility>

#include "cost/machine.h"
#include "cost/node_cost.h"
#include "graph/text.h"
#include "memory/peak.h"

namespace antegrad {
namespace {

using nlohmann::json;

constexpr double kMicrosecondsPerMillisecond = 1e3;
constexpr double kMicrosecondsPerSecond = 1e6;

json slice(int32_t process, int32_t track, std::string name, double start, double duration,
           json arguments) {
  return {{"ph", "X"},   {"pid", process},  {"tid", track},      {"name", std::move(name)},
          {"ts", start}, {"dur", duration}, {"cat", "antegrad"}, {"args", std::move(arguments)}};
}

// What a node makes and costs.
json describe(const Graph& graph, const Node& node, const ByteRules& rules) {
  json results = json::array();
  int64_t bytes = 0;
  for (const ValueId value : node.results()) {
    if (!graph.is_tensor(value)) continue;
    results.push_back(value_text(graph.value(value)));
    if (graph.owns_storage(value)) bytes += storage_bytes(graph.value(value).meta, rules);
  }
  const NodeCost cost = node_cost(graph, node, rules.symbols);
  return {{"node", node.id},     {"operator", node.op.name()}, {"results", results},
          {"bytes made", bytes}, {"bytes moved", cost.bytes},  {"flops", cost.flops}};
}

}  // namespace

int32_t ChromeTrace::add_process(const std::string& name, const std::vector<std::string>& tracks) {
  const int32_t process = ++processes_;
  const auto add_name = [&](const char* kind, int32_t track, const std::string& text) {
    events_.push_back({{"ph", "M"},
                       {"pid", process},
                       {"tid", track},
                       {"name", kind},
                       {"args", {{"name", text}}}});
  };
  add_name("process_name", 0, name);
  for (size_t i = 0; i < tracks.size(); ++i) {
    add_name("thread_name", static_cast<int32_t>(i + 1), tracks[i]);
  }
  return process;
}

void ChromeTrace::add_compilation(const std::string& name,
                                  const std::vector<CompileStage>& stages) {
  const int32_t process = add_process(name, {"stages"});
  for (const CompileStage& stage : stages) {
    json arguments = json::object();
    if (stage.nodes_after > 0) {
      arguments = {{"nodes before", stage.nodes_before}, {"nodes after", stage.nodes_after}};
    }
    events_.push_back(slice(process, 1, stage.name, stage.start_ms * kMicrosecondsPerMillisecond,
                            stage.milliseconds * kMicrosecondsPerMillisecond,
                            std::move(arguments)));
  }
}

void ChromeTrace::add_step(const std::string& name, const Partition& partition,
                           const ByteRules& rules, std::string_view machine,
                           const Measurements& measured) {
  const int32_t process = add_process(name, {"forward", "backward"});
  const Timeline timeline = simulate(partition, rules);
  auto point = timeline.points.begin();
  std::set<int32_t> ran;  // node ids
  double now = 0;         // in microseconds
  const auto count_live = [&](int64_t bytes) {
    events_.push_back({{"ph", "C"},
                       {"pid", process},
                       {"name", "live bytes"},
                       {"ts", now},
                       {"args", {{"bytes", bytes}}}});
  };
  const auto add_pass = [&](const Graph& graph, int32_t track) {
    const auto seconds = node_seconds(graph, rules.symbols, machine, measured);
    for (size_t i = 0; i < graph.nodes.size(); ++i, ++point) {
      const Node& node = graph.nodes[i];
      const double duration = seconds[i] * kMicrosecondsPerSecond;
      auto arguments = describe(graph, node, rules);
      arguments["live bytes"] = point->live;
      arguments["recomputed"] = !ran.insert(node.id).second && node.id >= 0;
      if (node.block >= 0) arguments["checkpoint"] = node.block;
      count_live(point->live);
      events_.push_back(
          slice(process, track, short_name(node.op.name()), now, duration, std::move(arguments)));
      now += duration;
    }
  };
  add_pass(partition.forward, 1);
  add_pass(partition.backward, 2);
  count_live(0);
}

json ChromeTrace::to_json() const { return {{"traceEvents", events_}, {"displayTimeUnit", "ms"}}; }

}  // namespace antegrad
