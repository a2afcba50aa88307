#include "torch_compat/generator_state.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include "memory/byte_rules.h"
#include "ops/attrs.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace generator_state_test {

// The bytes that the memory simulation counts for a saved state, by the generator's name in a
// graph.
TEST(GeneratorState, TakesTheBytesThatTheSimulationCounts) {
  for (const auto device : devices()) {
    SCOPED_TRACE(device.str());
    const auto shared = at::globalContext().defaultGenerator(device);
    const auto own = shared.clone();
    Graph graph;
    ops::AttrTables tables;
    for (const auto& generator : {at::Generator(), own}) {
      const auto index = ops::generator_index(generator, shared.device(), graph, tables);
      const auto& name = graph.generators.at(static_cast<size_t>(index));
      const auto state = torch_compat::state_of(generator.defined() ? generator : shared);
      EXPECT_TRUE(state.device().is_cpu());
      const auto bytes = static_cast<int64_t>(state.nbytes());
      if (device.is_cpu()) {
        EXPECT_EQ(generator_state_bytes(name), bytes) << name;
      } else {
        EXPECT_EQ(generator_state_bytes(name), 0) << name;
        EXPECT_LE(bytes, 64) << name;
      }
    }
  }
}

TEST(GeneratorState, IsGivenBackToTheBit) {
  for (const auto device : devices()) {
    SCOPED_TRACE(device.str());
    const auto generator = at::globalContext().defaultGenerator(device);
    const auto options = at::device(device);
    const auto before = torch_compat::state_of(generator);
    const auto drawn = at::rand({5}, options);
    EXPECT_FALSE(torch_compat::same_state(before, torch_compat::state_of(generator)));
    torch_compat::set_state(generator, before);
    EXPECT_TRUE(torch_compat::same_state(before, torch_compat::state_of(generator)));
    EXPECT_TRUE(same_bits(drawn, at::rand({5}, options)));
    torch_compat::put_back(generator, before);
    EXPECT_TRUE(same_bits(drawn, at::rand({5}, options)));
  }
}

}  // namespace generator_state_test
}  // namespace antegrad::testing
