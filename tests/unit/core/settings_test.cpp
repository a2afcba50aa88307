#include "options/settings.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graphs.h"

namespace antegrad::testing {
namespace settings_test {

TEST(Settings, EverySettingIsReadAsItIsWritten) {
  MinCutOptions options;
  options.recomputable_ops = {"aten::add", "aten::mul"};
  for (const std::string& setting : settings(options)) {
    // The other value of a switch, or another number, list or word.
    std::string changed = setting;
    const std::pair<std::string, std::string> words[] = {
        {"budget=1", "budget=0.25"}, {"=dp", "=ilp"}, {"=flops", "=profile"}};
    const auto* word = std::find_if(std::begin(words), std::end(words),
                                    [&](const auto& w) { return setting.ends_with(w.first); });
    if (changed.ends_with("true")) {
      changed.replace(changed.size() - 4, 4, "false");
    } else if (changed.ends_with("false")) {
      changed.replace(changed.size() - 5, 5, "true");
    } else if (word != std::end(words)) {
      changed.replace(changed.size() - word->first.size(), word->first.size(), word->second);
    } else {
      changed += changed.ends_with("mul") ? ",aten::sub" : "7";
    }
    MinCutOptions other = options;
    apply_setting(other, changed);
    const auto now = settings(other);
    EXPECT_EQ(std::count(now.begin(), now.end(), changed), 1) << changed;
    EXPECT_EQ(std::count(now.begin(), now.end(), setting), 0) << changed;
  }
}

TEST(Settings, WrongSettingsSayWhatIsRight) {
  MinCutOptions options;
  const auto set = [&](const char* setting) {
    return [&options, setting] { apply_setting(options, setting); };
  };
  expect_error<OptionError>(set("recompute_views"), "NAME=VALUE");
  expect_error<OptionError>(set("recompute_views=maybe"),
                            "true or false for the option recompute_views");
  expect_error<OptionError>(set("max_dist_from_bw=-1"), "an integer from 0");
  expect_error<OptionError>(set("max_dist_from_bw=1x"), "an integer from 0");
  expect_error<OptionError>(set("activation_memory_budget=1.5"), "from 0 to 1");
  expect_error<OptionError>(set("activation_memory_budget=nan"), "from 0 to 1");
  expect_error<OptionError>(set("activation_memory_budget_solver=best"), "dp, greedy, ilp");
  expect_error<OptionError>(set("recompute_view=true"), "did you mean recompute_views?");
  expect_error<OptionError>(set("audit=off"), "an option of the minimum cut");
  EXPECT_EQ(settings(options), settings(MinCutOptions()));
}

TEST(Settings, AListOfOperatorsMayBeEmpty) {
  MinCutOptions options;
  apply_setting(options, "recomputable_ops=");
  ASSERT_TRUE(options.recomputable_ops);
  EXPECT_TRUE(options.recomputable_ops->empty());
}

TEST(Settings, AreAllAppliedOrNone) {
  Options options;
  const auto both = [&](const char* second) {
    apply_settings({{"audit", "off"}, {"max_programs", second}}, options);
  };
  expect_error<OptionError>([&] { both("none"); }, "max_programs");
  EXPECT_EQ(options.audit, Audit::pow2);
  both("3");
  EXPECT_EQ(options.audit, Audit::off);
  EXPECT_EQ(options.max_programs, 3);
}

TEST(Settings, APartitionThatIsGivenHoldsWhereverItStands) {
  for (const bool first : {true, false}) {
    std::vector<Setting> given = {{"memory_budget", "1MiB"}};
    given.emplace(first ? given.begin() : given.end(), "partition", "min_cut");
    Options options;
    apply_settings(given, options);
    EXPECT_EQ(options.partition, Partitioner::min_cut);
  }
}

}  // namespace settings_test
}  // namespace antegrad::testing
