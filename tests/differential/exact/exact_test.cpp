// Every case of the table must be valid in eager, and equal or refused when compiled.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "differential/exact/cases.h"
#include "support/options.h"

namespace antegrad::testing {

const Cases& all_cases() {
  static const Cases cases = [] {
    const std::vector<std::pair<const char*, Cases>> parts = {
        {"mutation", mutation_cases()},    {"inputs", input_cases()},
        {"aliases", alias_cases()},        {"tangents", tangent_cases()},
        {"autograd", autograd_cases()},    {"ambient state", ambient_cases()},
        {"structures", structure_cases()}, {"bypass", bypass_cases()},
        {"custom", custom_cases()},        {"inside.h", inside_cases()},
        {"lazy bits", lazy_bits_cases()}};
    Cases all;
    for (const auto& [category, part] : parts) {
      for (auto c : part) {
        c.category = category;
        all.push_back(std::move(c));
      }
    }
    return all;
  }();
  return cases;
}

namespace exact_test {

std::string lines(const std::vector<std::string>& all) {
  std::string text;
  for (const auto& line : all) text += "\n  " + line;
  return text;
}

std::string test_name(const ::testing::TestParamInfo<size_t>& info) {
  const auto& c = all_cases()[info.param];
  std::string name = c.category + "_" + c.name;
  for (auto& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
}

// The leniencies used in each case so far.
std::vector<std::pair<const Case*, Leniencies>>& passed() {
  static std::vector<std::pair<const Case*, Leniencies>> all;
  return all;
}

class ExactInEager : public ::testing::TestWithParam<size_t> {};
class Exact : public ::testing::TestWithParam<size_t> {};

TEST_P(ExactInEager, TheCaseIsSound) {
  const auto& c = all_cases()[GetParam()];
  const auto found = differences(c, plain());
  EXPECT_TRUE(found.empty()) << c.category << ": " << c.name << lines(found);
}

TEST_P(Exact, CompiledIsAsEager) {
  const auto& c = all_cases()[GetParam()];
  Leniencies used;
  const auto found = differences(c, compiler(), /*all_lines=*/false, &used);
  passed().emplace_back(&c, used);
  EXPECT_TRUE(found.empty()) << c.category << ": " << c.name << lines(found);
}

// Prints the leniencies at the end. The bounds hold for all cases together: explain a case before
// raising them.
class Summary final : public ::testing::Environment {
 public:
  void TearDown() override {
    if (passed().empty()) return;
    // A partitioner that saves fewer or other tensors changes which writes between forward and
    // backward raise errors: eager saves a conjugate of an argument lazily, with the argument's
    // memory; a program saves the numbers.
    const bool as_written = tested_options().partition == Partitioner::as_written;
    print("gradients of the values of the call, where eager's backward throws",
          &Leniencies::values_of_the_call, as_written ? 24 : 100);
    print("writes to what runs again", &Leniencies::read_again, as_written ? 0 : 100);
    print("sums in another order, inside and outside of the region", &Leniencies::order_of_sums, 8);
    print("rounding", &Leniencies::rounding, 2);
    print("tolerated", &Leniencies::tolerated, 3);
    for (const auto& [c, used] : passed()) {
      if (!c->rounding.empty())
        std::printf("  rounding: %s: %s\n", c->name.c_str(), c->rounding.c_str());
      for (const auto& t : c->tolerated) {
        std::printf("  tolerated: %s: %s\n", c->name.c_str(), t.reason.c_str());
      }
    }
  }

 private:
  static void print(const char* what, int64_t Leniencies::*count, int bound) {
    int cases = 0;
    int64_t comparisons = 0;
    for (const auto& [c, used] : passed()) {
      cases += used.*count != 0;
      comparisons += used.*count;
    }
    std::printf("lenient: %s: %lld comparisons in %d cases of %zu (at most %d)\n", what,
                static_cast<long long>(comparisons), cases, passed().size(), bound);
    EXPECT_LE(cases, bound) << what;
  }
};
const auto* const kSummary = ::testing::AddGlobalTestEnvironment(new Summary);

const auto kEachCase = ::testing::Range<size_t>(0, all_cases().size());
INSTANTIATE_TEST_SUITE_P(All, ExactInEager, kEachCase, test_name);
INSTANTIATE_TEST_SUITE_P(All, Exact, kEachCase, test_name);

// The refused cases are a closed list: a new refusal must be added here.
const std::set<std::string>& refused_names() {
  static const std::set<std::string> names = {
      "a compiled callable inside",
      "ag::constant whose data changes",
      "a counter in the function",
      "a data pointer",
      "a flag that changes between calls",
      "a fresh tensor that requires grad",
      "a hook on an argument",
      "a nested argument",
      "a quantised argument",
      "a seed for some draws inside",
      "a sparse argument",
      "a sparse row-compressed argument",
      "a tensor made on another thread",
      "a view of a view made under no_grad",
      "an accessor",
      "a held tensor with a forward gradient",
      "a real view of a complex argument, written",
      "an argument with a forward gradient",
      "an argument with the conjugate bit",
      "an argument with the negative bit",
      "an intermediate is kept",
      "backward() inside",
      "backward() of a loss of parameters inside",
      "detach_ of a non-leaf argument",
      "an operator without derivative",
      "from_blob",
      "inference mode inside",
      "item()",
      "manual_seed inside",
      "optimizer.step() inside",
      "printing a tensor",
      "requires_grad_(false) of a parameter inside",
      "requires_grad_(false) of an argument",
      "requires_grad_(true) of a plain argument",
      "requires_grad_ of a detached intermediate",
      "retain_grad of a result",
      "set_data of a parameter inside",
      "set_data of an argument",
      "set_requires_grad of an argument",
      "torch::save of an argument",
      "torch::tensor of a vector",
      "work on another thread",
      "zero_grad inside",
  };
  return names;
}

TEST(ExactTable, RefusedCasesAreThoseListed) {
  std::set<std::string> refused;
  for (const auto& c : all_cases()) {
    if (c.expect.kind == Expectation::Kind::refused) refused.insert(c.name);
  }
  EXPECT_EQ(refused, refused_names());
}

TEST(ExactTable, NamesAreUnique) {
  std::set<std::string> names;
  for (const auto& c : all_cases()) EXPECT_TRUE(names.insert(c.name).second) << c.name;
}

TEST(ExactTable, HasAtLeast150EqualCases) {
  std::map<std::string, std::pair<int, int>> counts;  // by category: equal, refused
  int equal = 0, refused = 0;
  for (const auto& c : all_cases()) {
    const bool is_refused = c.expect.kind == Expectation::Kind::refused;
    ++(is_refused ? counts[c.category].second : counts[c.category].first);
    ++(is_refused ? refused : equal);
  }
  for (const auto& [category, count] : counts) {
    std::printf("%-14s %3d equal %3d refused\n", category.c_str(), count.first, count.second);
  }
  std::printf("%-14s %3d equal %3d refused\n", "all", equal, refused);
  EXPECT_GE(equal, 150);
}

}  // namespace exact_test
}  // namespace antegrad::testing
