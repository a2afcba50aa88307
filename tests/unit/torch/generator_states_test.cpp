#include "runtime/generator_states.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace generator_states_test {

TEST(GeneratorStates, TheDefaultGeneratorAndTheUsersAreFoundByNumber) {
  Graph graph;
  ops::AttrTables tables;
  const auto own = at::globalContext().defaultGenerator(at::kCPU).clone();
  ops::generator_index({}, at::kCPU, graph, tables);
  ops::generator_index(own, at::kCPU, graph, tables);
  const auto shared = at::globalContext().defaultGenerator(at::kCPU);
  EXPECT_EQ(runtime::generator_of(graph, tables, 0), shared);
  EXPECT_EQ(runtime::generator_of(graph, tables, 1), own);
}

TEST(GeneratorStates, RestoreLetsEachDrawTheSameAgain) {
  const auto shared = at::globalContext().defaultGenerator(at::kCPU);
  const auto own = shared.clone();
  const runtime::GeneratorStates states({shared, own});
  const auto first = at::rand({3}), second = at::rand({3}, own);
  states.restore();
  EXPECT_TRUE(same_bits(at::rand({3}), first));
  EXPECT_TRUE(same_bits(at::rand({3}, own), second));
}

}  // namespace generator_states_test
}  // namespace antegrad::testing
