#include "guards/origin.h"

#include <gtest/gtest.h>

namespace antegrad::testing::origin_test {
namespace {

using guards::Call;
using guards::Origin;

std::shared_ptr<const detail::HookPair> hooks_with_key(const std::string& hash) {
  const auto same = [](const at::Tensor& x) { return x; };
  return Hooks(same, same, HookOptions{true, "same", hash}).pair();
}

const Leaves no_arguments;
const int types = 0;

Origin origin_of(const Call& call) {
  const auto module = std::make_shared<const guards::ModuleTree>(nullptr);
  Origin origin{{capture::Captured(), call.arguments, call.types, module},
                call.declared,
                call.hooks,
                {},
                {},
                std::make_shared<const PackedGraph>(Graph()),
                {}};
  for (const auto& answer : call.answers) origin.questions.push_back({0, answer});
  return origin;
}

std::string misfit(const Origin& origin, const Call& call) {
  std::string why;
  const bool fits = origin.fits(call, &why);
  EXPECT_EQ(fits, why.empty());
  EXPECT_EQ(origin.fits(call), why.empty());
  return why;
}

TEST(Origin, FitsTheCallThatItIsOf) {
  const Call call{no_arguments, &types, {{int64_t{1}}}, hooks_with_key("a"), {{3, {}}}};
  EXPECT_EQ(misfit(origin_of(call), call), "");
}

TEST(Origin, HooksFitByTheirKey) {
  const Call none{no_arguments, &types, {}};
  const Call a{no_arguments, &types, {}, hooks_with_key("a")};
  const Call again{no_arguments, &types, {}, hooks_with_key("a")};
  const Call b{no_arguments, &types, {}, hooks_with_key("b")};
  EXPECT_EQ(misfit(origin_of(a), again), "");
  for (const auto* other : {&none, &b}) {
    EXPECT_EQ(misfit(origin_of(a), *other), "hooks on saved tensors are others");
    EXPECT_EQ(misfit(origin_of(*other), a), "hooks on saved tensors are others");
  }
}

TEST(Origin, ADeclaredValueThatDiffersIsNamedByItsNumber) {
  const Call was{no_arguments, &types, {{int64_t{1}}, {int64_t{2}}}};
  const Call is{no_arguments, &types, {{int64_t{1}}, {int64_t{5}}}};
  EXPECT_EQ(misfit(origin_of(was), is), "guard 1 was 2, is 5");
}

TEST(Origin, AnAnswerToAQuestionThatWasNotAskedFitsNot) {
  const Call was{no_arguments, &types, {}};
  Call is = was;
  is.answers.push_back({7, {}});
  EXPECT_EQ(misfit(origin_of(was), is), "data were not asked what is now 7");
  EXPECT_EQ(misfit(origin_of(is), was), "");  // unknown until it is asked
}

TEST(Origin, TypesOfTheArgumentsAreGuarded) {
  const Call was{no_arguments, &types, {}};
  const Call is{no_arguments, &no_arguments, {}};
  EXPECT_EQ(misfit(origin_of(was), is), "the types of the arguments differ");
}

}  // namespace
}  // namespace antegrad::testing::origin_test
