#include "partition/min_cut_options.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graphs.h"

namespace antegrad::testing {
namespace {

TEST(MinCutOptions, EverySettingIsReadAsItIsWritten) {
  MinCutOptions options;
  options.recomputable_ops = {"aten::add", "aten::mul"};
  for (const std::string& setting : settings(options)) {
    // The other value of a switch, another number, list or word.
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

TEST(MinCutOptions, WrongSettingsSayWhatIsRight) {
  MinCutOptions options;
  const auto set = [&](const char* setting) {
    return [&options, setting] { apply_setting(options, setting); };
  };
  expect_error<OptionError>(set("recompute_views"), "NAME=VALUE");
  expect_error<OptionError>(set("recompute_views=maybe"), "recompute_views=true or false");
  expect_error<OptionError>(set("max_dist_from_bw=-1"), "max_dist_from_bw=NUMBER");
  expect_error<OptionError>(set("max_dist_from_bw=1x"), "max_dist_from_bw=NUMBER");
  expect_error<OptionError>(set("activation_memory_budget=1.5"), "from 0 to 1");
  expect_error<OptionError>(set("activation_memory_budget=nan"), "from 0 to 1");
  expect_error<OptionError>(set("activation_memory_budget_solver=best"), "dp, greedy, ilp");
  expect_error<OptionError>(set("recompute_view=true"), "recompute_views=true");
  EXPECT_EQ(settings(options), settings(MinCutOptions()));
}

TEST(MinCutOptions, AListOfOperatorsMayBeEmpty) {
  MinCutOptions options;
  apply_setting(options, "recomputable_ops=");
  ASSERT_TRUE(options.recomputable_ops);
  EXPECT_TRUE(options.recomputable_ops->empty());
}

}  // namespace
}  // namespace antegrad::testing
