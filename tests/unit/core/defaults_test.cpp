#include "options/defaults.h"

#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <antegrad/config.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

#include "graphs.h"

namespace antegrad::testing {
namespace defaults_test {

Options from(const std::map<std::string, std::string>& variables) {
  return options_from([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

/// Restores the defaults at the end.
class Defaults : public ::testing::Test {
  Options before_ = default_options();
  void TearDown() override { set_default_options(std::move(before_)); }
};

TEST(Environment, VariablesSetDefaults) {
  const Options options = from({{"ANTEGRAD_MAX_PROGRAMS", "3"},
                                {"ANTEGRAD_VERIFY_GRAPHS", "1"},
                                {"ANTEGRAD_MEMORY_BUDGET", "2KiB"},
                                {"ANTEGRAD_BAN_RECOMPUTE_RANDOM", "false"},
                                {"ANTEGRAD_DUMP", "/tmp/graphs"},
                                {"ANTEGRAD_NAME", "ignored"},
                                {"ANTEGRAD_LOGS", "memory"}});
  EXPECT_EQ(options.max_programs, 3);
  EXPECT_TRUE(options.verify_graphs);
  EXPECT_EQ(options.budget.bytes, 2048);
  EXPECT_EQ(options.partition, Partitioner::budget);
  EXPECT_FALSE(options.min_cut.ban_recompute_random);
  EXPECT_EQ(options.dump_dir, "/tmp/graphs");
  EXPECT_EQ(options.name, "step");
  EXPECT_EQ(to_json(from({})), to_json(Options()));
}

TEST(Environment, APartitionThatIsGivenHolds) {
  EXPECT_EQ(
      from({{"ANTEGRAD_MEMORY_SHARE", "0.5"}, {"ANTEGRAD_PARTITION", "as_written"}}).partition,
      Partitioner::as_written);
}

TEST(Environment, ABadValueNamesItsVariable) {
  expect_error<OptionError>(
      [] {
        from({{"ANTEGRAD_AUDIT", "sometimes"}});
      },
      "one of off, pow2, every for the option audit; found \"sometimes\"\n"
      "in the environment variable ANTEGRAD_AUDIT");
}

TEST_F(Defaults, AreThoseThatWereSet) {
  set_default_options(Options().with_audit(Audit::every));
  EXPECT_EQ(default_options().audit, Audit::every);
  update_default_options([](Options& options) { options.max_programs = 2; });
  EXPECT_EQ(default_options().audit, Audit::every);
  EXPECT_EQ(default_options().max_programs, 2);
}

TEST_F(Defaults, AChangeThatFailsChangesNothing) {
  const auto change = [](Options& options) {
    options.max_programs = 2;
    throw std::logic_error("no");
  };
  EXPECT_THROW(update_default_options(change), std::logic_error);
  EXPECT_EQ(default_options().max_programs, 256);
}

TEST_F(Defaults, PatchesNestAndEnd) {
  {
    const OptionsPatch outer{"partition=min_cut", "audit=off"};
    EXPECT_EQ(default_options().partition, Partitioner::min_cut);
    {
      const OptionsPatch inner{"audit=every"};
      EXPECT_EQ(default_options().partition, Partitioner::min_cut);
      EXPECT_EQ(default_options().audit, Audit::every);
      const OptionsPatch whole{Options().with_max_programs(2)};
      EXPECT_EQ(default_options().partition, Partitioner::as_written);
      EXPECT_EQ(default_options().max_programs, 2);
    }
    EXPECT_EQ(default_options().audit, Audit::off);
  }
  EXPECT_EQ(to_json(default_options()), to_json(Options()));
}

TEST_F(Defaults, APatchEndsWithAnException) {
  try {
    const OptionsPatch patch{"audit=off"};
    throw std::logic_error("inside");
  } catch (const std::logic_error&) {
    EXPECT_EQ(default_options().audit, Audit::pow2);
  }
}

TEST_F(Defaults, APatchThatIsRefusedChangesNothing) {
  const OptionsPatch outer{"audit=off"};
  expect_error<OptionError>(
      [] {
        OptionsPatch{"max_programs=2", "audit=never"};
      },
      "off, pow2, every");
  expect_error<OptionError>([] { OptionsPatch{"audit"}; }, "NAME=VALUE");
  expect_error<OptionError>([] { OptionsPatch{"audits=off"}; }, "did you mean audit?");
  EXPECT_EQ(default_options().audit, Audit::off);
  EXPECT_EQ(default_options().max_programs, 256);
}

TEST_F(Defaults, WhatIsSetInAPatchEndsWithIt) {
  {
    const OptionsPatch patch{"audit=off"};
    update_default_options([](Options& options) { options.max_programs = 2; });
    EXPECT_EQ(default_options().max_programs, 2);
    EXPECT_EQ(default_options().audit, Audit::off);
  }
  EXPECT_EQ(default_options().max_programs, 256);
}

TEST_F(Defaults, APatchIsItsThreads) {
  const OptionsPatch patch{"audit=off"};
  std::thread([] {
    EXPECT_EQ(default_options().audit, Audit::pow2);
    const OptionsPatch other{"audit=every"};
    EXPECT_EQ(default_options().audit, Audit::every);
  }).join();
  EXPECT_EQ(default_options().audit, Audit::off);
}

TEST_F(Defaults, NoChangeOfAnyThreadIsLost) {
  constexpr int64_t kThreads = 4;
  constexpr int64_t kChanges = 200;
  set_default_options(Options().with_max_programs(1));
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (int64_t i = 0; i < kChanges; ++i) {
        update_default_options([](Options& options) { ++options.max_programs; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(default_options().max_programs, 1 + kThreads * kChanges);
}

}  // namespace defaults_test
}  // namespace antegrad::testing
