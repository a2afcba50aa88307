#include "memory/byte_rules.h"

#include <gtest/gtest.h>

#include "graphs.h"

namespace antegrad::testing {
namespace byte_rules_test {

TEST(StorageBytes, AreRoundedAsTheAllocatorOfTheDeviceDoes) {
  const Graph graph = graph_of(R"(symbols s0
inputs
  %0: f32[3] primal
  %1: f32[3] cuda:0 primal
  %2: f32[3, 0] primal
  %3: f32[3] meta primal
  %4: f32[17] primal
  %5: i8[s0, 4] primal
  %6: f32[3]{20} primal
nodes
outputs
)");
  const auto bytes = [&](ValueId id, const ByteRules& rules) {
    return storage_bytes(graph.value(id).meta, rules);
  };
  EXPECT_EQ(bytes(0, {}), 64);
  EXPECT_EQ(bytes(1, {}), 512);
  EXPECT_EQ(bytes(2, {}), 0);
  EXPECT_EQ(bytes(3, {}), 0);
  EXPECT_EQ(bytes(4, {}), 128);
  EXPECT_EQ(bytes(4, {{}, 1}), 68);
  EXPECT_EQ(bytes(5, {{40}, 0}), 192);
  EXPECT_EQ(bytes(6, {}), 192);  // strides span 41 elements
}

TEST(StateBytes, AreMemoryOnTheCpuOnly) {
  EXPECT_EQ(generator_state_bytes("cpu"), kGeneratorStateBytes);
  EXPECT_EQ(generator_state_bytes("user:2:cpu"), kGeneratorStateBytes);
  EXPECT_EQ(generator_state_bytes("cuda:0"), 0);
  EXPECT_EQ(generator_state_bytes("user:0:cuda:0"), 0);
  EXPECT_EQ(state_bytes("cpu", {}), 5056);
  EXPECT_EQ(state_bytes("cpu", {{}, 1000}), 6000);
  EXPECT_EQ(state_bytes("cuda:0", {}), 0);
}

}  // namespace byte_rules_test
}  // namespace antegrad::testing
