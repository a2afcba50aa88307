#include "torch_compat/tracer_context.h"

#include <ATen/ThreadLocalState.h>
#include <gtest/gtest.h>

#include <thread>

namespace antegrad::testing {
namespace tracer_context_test {

using torch_compat::carried;
using torch_compat::CarriedBase;
using torch_compat::CarriedScope;

TEST(TracerContext, TheInnermostScopeCounts) {
  CarriedBase outer, inner;
  EXPECT_EQ(carried(), nullptr);
  {
    const CarriedScope a(&outer);
    EXPECT_EQ(carried(), &outer);
    {
      const CarriedScope b(&inner);
      EXPECT_EQ(carried(), &inner);
    }
    EXPECT_EQ(carried(), &outer);
  }
  EXPECT_EQ(carried(), nullptr);
}

TEST(TracerContext, OtherThreadsSeeItWhereLibtorchTakesTheirStateFromHere) {
  CarriedBase object;
  const CarriedScope scope(&object);
  const at::ThreadLocalState state;
  CarriedBase* alone = &object;
  CarriedBase* with_state = nullptr;
  std::thread([&] {
    alone = carried();
    const at::ThreadLocalStateGuard guard(state);
    with_state = carried();
  }).join();
  EXPECT_EQ(alone, nullptr);
  EXPECT_EQ(with_state, &object);
}

}  // namespace tracer_context_test
}  // namespace antegrad::testing
