#include "explain/rank_step.h"

#include <algorithm>
#include <unordered_map>

#include "passes/collectives.h"

namespace antegrad {
namespace {

using Event = RankStep::Event;

void add_program(const Graph& program, const Machine& machine, double scale, RankStep& step) {
  static const Op exchange = Op::intern("antegrad::all_to_all.default");
  const auto seconds = node_seconds(program, {}, machine);
  std::unordered_map<ValueId, int32_t> running;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (starts_collective(node)) {
      const auto bytes = static_cast<double>(moved_bytes(program.value(node.outputs.front())));
      const auto index = static_cast<int32_t>(step.collectives.size());
      running[node.outputs.front()] = index;
      step.collectives.push_back({bytes, node.op == exchange});
      step.events.push_back({.kind = Event::Kind::start, .collective = index});
    } else if (ends_collective(node)) {
      const auto started = running.find(node.inputs.front());
      if (started == running.end()) continue;
      step.events.push_back({.kind = Event::Kind::wait, .collective = started->second});
      running.erase(started);
    } else if (seconds[i] > 0) {
      step.events.push_back({.kind = Event::Kind::compute, .seconds = scale * seconds[i]});
    }
  }
}

}  // namespace

double RankStep::compute_seconds() const {
  double sum = 0;
  for (const Event& event : events) sum += event.seconds;
  return sum;
}

RankStep rank_step(const std::vector<Graph>& programs, const Machine& machine, double scale) {
  RankStep step;
  for (const Graph& program : programs) add_program(program, machine, scale, step);
  return step;
}

double step_seconds(const RankStep& step, double core_share,
                    const std::function<double(const RankCollective&)>& seconds_of) {
  double now = 0;
  double network = 0;  // from when on it is free
  std::vector<double> ends(step.collectives.size(), 0);
  for (const Event& event : step.events) {
    switch (event.kind) {
      case Event::Kind::compute: now += event.seconds; break;
      case Event::Kind::wait: now = std::max(now, ends[event.collective]); break;
      case Event::Kind::start: {
        const double seconds = seconds_of(step.collectives[event.collective]);
        network = std::max(now, network) + seconds;
        ends[event.collective] = network;
        now += core_share * seconds;
        break;
      }
    }
  }
  return std::max(now, network);
}

}  // namespace antegrad
