// Draws of a forward that its backward repeats.

#include "runtime/draws.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/bits.h"
#include "torch_compat/generator_state.h"

namespace antegrad::testing {
namespace draws_test {

// Operators with a generator argument, with an overload that has one, and without.
TEST(RepeatableDraw, ARepetitionGivesTheSameBitsAndLeavesTheGeneratorAlone) {
  const auto generator = at::globalContext().defaultGenerator(at::kCPU);
  const auto x = at::full({64}, 0.5F);
  const auto none = c10::IValue();
  const std::vector<std::pair<const char*, torch::jit::Stack>> draws = {
      {"aten::bernoulli.p", {x, 0.5, none}},
      {"aten::rand.default", {std::vector<int64_t>{64}, none, none, none, none}},
      {"aten::native_dropout.default", {x, 0.5, true}},
  };
  for (const auto& [name, arguments] : draws) {
    SCOPED_TRACE(name);
    const runtime::RepeatableDraw draw(ops::entry_of(Op::intern(name)), generator);
    auto first = arguments, second = arguments;
    const auto state = draw.record(first);
    const auto after = torch_compat::state_of(generator);
    at::rand({3});  // the user draws further numbers
    const auto later = torch_compat::state_of(generator);
    EXPECT_FALSE(torch_compat::same_state(after, later));
    draw.repeat(second, state);
    EXPECT_TRUE(same_bits(first.at(0).toTensor(), second.at(0).toTensor()));
    EXPECT_TRUE(torch_compat::same_state(later, torch_compat::state_of(generator)));
  }
}

TEST(RepeatableDraw, RecordingDrawsAsTheUserWould) {
  const auto generator = at::globalContext().defaultGenerator(at::kCPU);
  const auto before = torch_compat::state_of(generator);
  const auto expected = at::rand({64});
  torch_compat::set_state(generator, before);
  const runtime::RepeatableDraw draw(ops::entry_of(Op::intern("aten::rand.default")), generator);
  const auto none = c10::IValue();
  torch::jit::Stack stack = {std::vector<int64_t>{64}, none, none, none, none};
  const auto state = draw.record(stack);
  EXPECT_TRUE(torch_compat::same_state(state, before));
  EXPECT_TRUE(same_bits(stack.at(0).toTensor(), expected));
}

}  // namespace draws_test
}  // namespace antegrad::testing
