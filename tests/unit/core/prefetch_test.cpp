#include "partition/hooks/prefetch.h"

#include <gtest/gtest.h>

#include <string>

#include "partition/default_partition.h"
#include "partition/hooks/hooks.h"
#include "partitions.h"

namespace antegrad::testing {
namespace prefetch_test {

constexpr int64_t kBytes = 512;  // of a tensor, as the allocator rounds it

std::string joint_on(const std::string& device) {
  const std::string type = ": f32[64] " + device;
  const auto node = [&](int id, const std::string& call) {
    return "  %" + std::to_string(id) + type + " = aten::" + call + "\n";
  };
  return "inputs\n  %0" + type + " primal argument 0 grad\n  %9" + type + " tangent 0\nnodes\n" +
         node(1, "exp.default(%0)") + node(2, "sin.default(%1)") + node(3, "exp.default(%2)") +
         node(4, "sin.default(%3)") + "backward\n" + node(5, "mul.Tensor(%9, %3)") +
         node(6, "mul.Tensor(%5, %2)") + node(7, "mul.Tensor(%6, %1)") +
         "outputs\n  %4 result grad\n  %7 gradient 0\n";
}

/// The partition of three exponentials' tensors that are offloaded.
class Prefetch : public ::testing::Test {
 protected:
  static Partition offloading(const std::string& device) {
    Graph joint = graph_of(joint_on(device));
    number_nodes(joint);
    Partition partition = default_partition(joint);
    Hooked hooked{{}, 100};
    const std::string type = ": f32[64] " + device;
    for (const SavedSlot& saved : partition.plan.saved) {
      hooked.tensors.push_back(
          {saved.value,
           graph_of("inputs\n  %0" + type +
                    " primal argument 0\nnodes\n  %1: u8[8] = antegrad::offload.default(%0, 0, "
                    "\"\")\noutputs\n  %1 result\n"),
           graph_of("inputs\n  %0: u8[8] primal argument 0\nnodes\n  %1" + type +
                    " = antegrad::fetch.default(%0, [64], [1], f32, " + device +
                    ")\noutputs\n  %1 result\n")});
    }
    EXPECT_EQ(hooked.tensors.size(), 3U);
    apply_hooks(partition, hooked);
    return partition;
  }

  /// "start 3, wait 3, mul, fetch 2, mul": operators, and of fetches the value that they make.
  static std::string schedule(const Partition& partition) {
    std::string text;
    const Graph& backward = partition.backward;
    for (const Node& node : backward.nodes) {
      const std::string& name = node.op.info().base_name;
      const auto word = name.substr(name.find("::") + 2);
      if (!text.empty()) text += ", ";
      text += word == "fetch_start" ? "start" : word == "fetch_wait" ? "wait" : word;
      if (!word.starts_with("fetch")) continue;
      text += " " + to_string(backward.base(node.outputs.front()));
    }
    return text;
  }
};

TEST_F(Prefetch, WithoutAnyFetchesAreWhereTheTensorIsRead) {
  auto partition = offloading("cuda:0");
  prefetch(partition, 0, {}, {});
  EXPECT_EQ(schedule(partition), "fetch 3, mul, fetch 2, mul, fetch 1, mul");
}

TEST_F(Prefetch, StartsAsManyTensorsAheadAsWanted) {
  auto one = offloading("cuda:0");
  prefetch(one, 1, {}, {});
  verify_both(one);
  EXPECT_EQ(schedule(one), "fetch 3, start 2, mul, wait 2, start 1, mul, wait 1, mul");
  auto two = offloading("cuda:0");
  prefetch(two, 2, {}, {});
  verify_both(two);
  EXPECT_EQ(schedule(two), "start 2, fetch 3, start 1, mul, wait 2, mul, wait 1, mul");
}

TEST_F(Prefetch, TheTensorTakesMemoryFromItsStart) {
  auto partition = offloading("cuda:0");
  const auto before = simulate(partition);
  prefetch(partition, 1, {}, {});
  const auto after = simulate(partition);
  EXPECT_EQ(after.points.size(), before.points.size() + 2);
  const auto live_at = [](const Timeline& timeline, std::string_view op) {
    for (const auto& point : timeline.points) {
      if (point.pass == Phase::backward && point.op.name() == op) return point.live;
    }
    return int64_t{-1};
  };
  const auto mul = "aten::mul.Tensor";
  EXPECT_EQ(live_at(after, mul), live_at(before, mul) + kBytes);
}

TEST_F(Prefetch, StaysWithinABudget) {
  auto partition = offloading("cuda:0");
  const auto peak = simulate(partition).peak_bytes;
  prefetch(partition, 2, peak, {});
  EXPECT_EQ(simulate(partition).peak_bytes, peak);
  auto with_room = offloading("cuda:0");
  prefetch(with_room, 2, peak + kBytes, {});
  EXPECT_LE(simulate(with_room).peak_bytes, peak + kBytes);
  EXPECT_NE(schedule(with_room), schedule(partition));
}

TEST_F(Prefetch, TensorsOfTheCpuAreReadWhereTheyAreUsed) {
  auto partition = offloading("cpu");
  prefetch(partition, 2, {}, {});
  EXPECT_EQ(schedule(partition), "fetch 3, mul, fetch 2, mul, fetch 1, mul");
}

}  // namespace prefetch_test
}  // namespace antegrad::testing
