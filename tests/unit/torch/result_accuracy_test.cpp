// Accuracy of results on tensors, and the sample by which large ones are judged.

#include "compile/result_accuracy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "lower/closeness.h"

namespace antegrad::testing {
namespace result_accuracy_test {

constexpr int64_t kRows = 300, kColumns = 1024;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Results {
  at::Tensor exact = at::randn({kRows, kColumns}, at::kDouble);
  at::Tensor expected = exact.to(at::kFloat);
  at::Tensor found = expected.clone();

  // As of a result on a GPU.
  std::string judged_by_sample() const {
    const auto rows = compiler::sampled(found, expected, exact);
    return compiler::less_accurate(rows[0].to(at::kFloat), rows[1].to(at::kFloat), rows[2],
                                   /*wider=*/true, lower::kSlack);
  }
};

TEST(ResultAccuracy, ASampleIsMuchSmallerAndMeetsAllColumns) {
  Results results;
  results.exact = at::arange(kColumns, at::kDouble).expand({kRows, kColumns});
  results.found = results.expected = results.exact.to(at::kFloat);
  const auto rows = compiler::sampled(results.found, results.expected, results.exact);
  EXPECT_EQ(rows.size(0), 3);
  EXPECT_LT(rows.size(1), kRows * kColumns / 3);
  EXPECT_TRUE(rows.equal(rows[2].expand_as(rows)));
  EXPECT_EQ(std::get<0>(at::_unique(rows[2])).numel(), kColumns);
}

TEST(ResultAccuracy, SmallResultsAreWhole) {
  const auto found = at::randn({7, 5}), exact = found.to(at::kDouble);
  EXPECT_TRUE(compiler::sampled(found, found, exact)[1].equal(exact.view(-1)));
  const auto none = at::randn({0, 5});
  EXPECT_EQ(compiler::sampled(none, none, none.to(at::kDouble)).size(1), 0);
}

TEST(ResultAccuracy, ASampleHasTheElementThatIsWrong) {
  EXPECT_EQ(Results().judged_by_sample(), "");
  for (const int64_t place : {0, 1, 4321, 150000, 299 * 1024 + 1022, 300 * 1024 - 1}) {
    for (const double wrong : {100.0, kNan, kInfinity, -kInfinity}) {
      Results results;
      results.found.view(-1)[place] = wrong;
      EXPECT_NE(results.judged_by_sample(), "") << place << " " << wrong;
    }
  }
}

// Many elements whose distance is no number must not hide the wrong one.
TEST(ResultAccuracy, ASampleHasItAmongInfinitiesAndNaNs) {
  for (const int64_t place : {1, 4322, 300 * 1024 - 2}) {
    Results results;
    for (auto* result : {&results.exact, &results.expected, &results.found}) {
      result->view(-1).slice(0, 0, kRows * kColumns, 3).fill_(kInfinity);
      result->view(-1).slice(0, 3, kRows * kColumns, 9).fill_(kNan);
    }
    EXPECT_EQ(results.judged_by_sample(), "");
    results.found.view(-1)[place] += 1;
    EXPECT_NE(results.judged_by_sample(), "") << place;
  }
}

TEST(ResultAccuracy, AResultOfFloat64StaysAsItIs) {
  Results results;
  results.found = results.expected = results.exact.clone();
  compiler::sampled(results.found, results.expected, results.exact);
  EXPECT_TRUE(results.found.equal(results.exact));
}

}  // namespace result_accuracy_test
}  // namespace antegrad::testing
