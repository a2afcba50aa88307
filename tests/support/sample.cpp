#include "support/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "graph/hash.h"
#include "support/options.h"

namespace antegrad::testing {
namespace {

// The suites that compile with tested_options(). Variants skip all other tests, since no option
// affects them.
constexpr std::string_view kSuites[] = {
    // exact
    "Exact",
    "ExactHarness",
    // models
    "AutocastLoop",
    "Sequence",
    "Structure",
    "TrainingLoop",
    "Vision",
    // differential
    "AutogradFunction",
    "BackwardState",
    "Constant",
    "CustomOps",
    "Functions",
    "HiddenWrites",
    "Hooks",
    "Indexing",
    "LibraryKernels",
    "ListWrites",
    "ManyShapes",
    "Opaque",
    "ResizeStorage",
    "Training",
    "Writing",
    // runtime
    "RunningStatistics",
};

// "Exact" of "All/Exact".
std::string_view base_name(std::string_view suite) {
  return suite.substr(suite.rfind('/') + 1);  // npos + 1 is 0
}

bool options_change(const ::testing::TestInfo& test) {
  return std::find(std::begin(kSuites), std::end(kSuites), base_name(test.test_suite_name())) !=
         std::end(kSuites);
}

std::string full_name(const ::testing::TestInfo& test) {
  return std::string(test.test_suite_name()) + "." + test.name();
}

// Part `part` of `parts`, counted from 1.
struct Sample {
  uint64_t part = 1, parts = 1;
  bool has(const std::string& name) const { return hash_of_bytes(name).low % parts == part - 1; }
};

Sample wanted_sample() {
  const char* text = std::getenv("ANTEGRAD_TEST_SAMPLE");
  if (text == nullptr) return {};
  unsigned part = 0, parts = 0;
  char rest = 0;
  if (std::sscanf(text, "%u/%u%c", &part, &parts, &rest) != 2 || part < 1 || part > parts) {
    std::fprintf(stderr, "ANTEGRAD_TEST_SAMPLE is '%s'; expected PART/PARTS, as in 2/5\n", text);
    std::exit(2);
  }
  return {part, parts};
}

// Ensures that the list of suites is complete.
class OnlyListedSuites final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& /*test*/) override { before_ = options_asked_for(); }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (options_change(test)) return;
    EXPECT_EQ(options_asked_for(), before_)
        << full_name(test) << " compiles with tested_options(): add its suite to kSuites in "
        << __FILE__;
  }
  int64_t before_ = 0;
};

}  // namespace

void choose_tests() {
  auto& program = *::testing::UnitTest::GetInstance();
  program.listeners().Append(new OnlyListedSuites);
  const auto sample = wanted_sample();
  if (!is_a_variant() || ::testing::GTEST_FLAG(filter) != "*") return;
  std::string chosen;
  int count = 0, all = 0;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const auto& test = *suite.GetTestInfo(j);
      if (!options_change(test)) continue;
      ++all;
      if (!sample.has(full_name(test))) continue;
      ++count;
      chosen += (chosen.empty() ? "" : ":") + full_name(test);
    }
  }
  ::testing::GTEST_FLAG(filter) = chosen.empty() ? "-*" : chosen;
  std::printf("variant: part %d of %d: %d of the %d tests that options change, of %d in all\n",
              static_cast<int>(sample.part), static_cast<int>(sample.parts), count, all,
              program.total_test_count());
}

}  // namespace antegrad::testing
