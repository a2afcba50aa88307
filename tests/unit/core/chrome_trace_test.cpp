#include "explain/chrome_trace.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "partitions.h"

namespace antegrad::testing {
namespace chrome_trace_test {

using nlohmann::json;

// Every event has what the Trace Event Format asks of its phase.
void expect_valid(const json& trace) {
  for (const auto& event : trace.at("traceEvents")) {
    const auto phase = event.at("ph").get<std::string>();
    EXPECT_TRUE(event.at("pid").is_number_integer()) << event;
    EXPECT_TRUE(event.at("name").is_string()) << event;
    EXPECT_TRUE(event.at("args").is_object()) << event;
    if (phase == "M") {
      EXPECT_TRUE(event["args"].at("name").is_string()) << event;
      continue;
    }
    EXPECT_GE(event.at("ts").get<double>(), 0) << event;
    if (phase == "C") {
      EXPECT_TRUE(event["args"].front().is_number()) << event;
    } else {
      EXPECT_EQ(phase, "X");
      EXPECT_TRUE(event.at("tid").is_number_integer()) << event;
      EXPECT_GE(event.at("dur").get<double>(), 0) << event;
    }
  }
}

std::vector<json> of_phase(const json& trace, const std::string& phase) {
  std::vector<json> events;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

TEST(ChromeTrace, AStepHasItsOperatorsInOrderAndTheLiveBytesOfTheSimulator) {
  MinCutOptions options;
  options.aggressive_recomputation = true;
  const Partition partition = min_cut_partition(graph_from_file("mlp.agraph"), options);
  ChromeTrace trace;
  trace.add_step("mlp", partition);
  const json found = trace.to_json();
  expect_valid(found);
  const auto slices = of_phase(found, "X");
  ASSERT_EQ(slices.size(), partition.forward.nodes.size() + partition.backward.nodes.size());
  double end = 0;
  std::map<int, int64_t> by_track, recomputed;
  for (const auto& slice : slices) {
    EXPECT_GE(slice["ts"].get<double>(), end);  // one after the other
    end = slice["ts"].get<double>() + slice["dur"].get<double>() - 1e-6;
    ++by_track[slice["tid"]];
    recomputed[slice["tid"]] += slice["args"]["recomputed"].get<bool>();
  }
  EXPECT_EQ(by_track[1], static_cast<int64_t>(partition.forward.nodes.size()));
  EXPECT_EQ(recomputed[1], 0);
  EXPECT_GT(recomputed[2], 0);
  const Timeline timeline = simulate(partition);
  const auto counters = of_phase(found, "C");
  ASSERT_EQ(counters.size(), timeline.points.size() + 1);
  int64_t peak = 0;
  for (const auto& counter : counters) {
    peak = std::max(peak, counter["args"]["bytes"].get<int64_t>());
  }
  EXPECT_EQ(peak, timeline.peak_bytes);
  EXPECT_EQ(counters.back()["args"]["bytes"], 0);
  EXPECT_EQ(slices[0]["args"]["operator"], partition.forward.nodes[0].op.name());
}

TEST(ChromeTrace, CompilationsAndStepsAreProcessesOfTheirOwn) {
  ChromeTrace trace;
  trace.add_compilation("a", {{"capture", 0, 2}, {"simplify", 2, 1}, {"dce", 2.5, 0.25, 9, 7}});
  trace.add_step("b", default_partition(graph_from_file("mlp.agraph")));
  const json found = trace.to_json();
  expect_valid(found);
  std::map<int, std::string> processes;
  for (const auto& event : of_phase(found, "M")) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{1, "a"}, {2, "b"}}));
  const auto pass = of_phase(found, "X")[2];
  EXPECT_EQ(pass["name"], "dce");
  EXPECT_EQ(pass["ts"], 2500);
  EXPECT_EQ(pass["dur"], 250);
  EXPECT_EQ(pass["args"]["nodes before"], 9);
}

}  // namespace chrome_trace_test
}  // namespace antegrad::testing
