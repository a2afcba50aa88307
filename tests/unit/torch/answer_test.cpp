// Answers of data to questions, and the operator that checks them.

#include "ops/answer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace answer_test {

void assume(const at::Tensor& question, int64_t answer) {
  torch::jit::Stack stack = {question, answer};
  ops::assume_operator().callBoxed(stack);
}

TEST(Answer, AssumeThrowsWhatItFoundInstead) {
  EXPECT_NO_THROW(assume(at::tensor(3), 3));
  EXPECT_NO_THROW(assume(at::ones({}, at::kBool), 1));
  try {
    assume(at::tensor(4), 3);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ops::UnexpectedAnswer& unexpected) {
    EXPECT_EQ(unexpected.found.number, 4);
    EXPECT_TRUE(unexpected.found.outputs.empty());
  }
}

TEST(Answer, TextIsTheNumberOrTheSizes) {
  EXPECT_EQ(ops::to_text({7, {}}), "7");
  shapes::Spec matrix, row, none;
  matrix.sizes = {5, 2};
  row.sizes = {5};
  none.defined = false;
  EXPECT_EQ(ops::to_text({0, {matrix, row, none}}), "[5, 2] [5] nothing");
}

TEST(Answer, IntegersAndSizesOfResultsAreSizes) {
  const auto three = ops::answer_in(at::tensor(3)), four = ops::answer_in(at::tensor(4));
  const auto yes = ops::answer_in(at::ones({}, at::kBool));
  const auto no = ops::answer_in(at::zeros({}, at::kBool));
  EXPECT_TRUE(ops::equal_but_for_sizes(three, four));
  EXPECT_FALSE(ops::equal_but_for_sizes(yes, no));
  EXPECT_TRUE(ops::equal_but_for_sizes(yes, yes));
  shapes::Spec matrix, larger, row;
  matrix.sizes = {5, 2};
  larger.sizes = {9, 2};
  row.sizes = {5};
  EXPECT_TRUE(ops::equal_but_for_sizes({0, {matrix}}, {0, {larger}}));
  EXPECT_FALSE(ops::equal_but_for_sizes({0, {matrix}}, {0, {row}}));
  EXPECT_FALSE(ops::equal_but_for_sizes({0, {matrix}}, {0, {matrix, row}}));
}

TEST(Answer, AnswersKeepTheOrderOfTheQuestions) {
  const auto answers = ops::answers_of({{3, {1, {}}}, {8, {0, {}}}});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].number, 1);
  EXPECT_EQ(answers[1].number, 0);
}

}  // namespace answer_test
}  // namespace antegrad::testing
