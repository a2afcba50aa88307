// The table of options: every row through text and JSON, and the errors for unknown names and
// invalid values.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <antegrad/config.h>
#include <antegrad/error.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphs.h"
#include "options/reference.h"
#include "options/settings.h"
#include "options/table.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace options_test {

/// Valid values of the option as text, none of them the default.
std::vector<std::string> other_values(const OptionRow& row) {
  const Domain& domain = row.member.domain;
  const std::string usual = text_of(row.member.get(Options()));
  std::vector<std::string> values;
  switch (domain.kind) {
    case OptionKind::boolean: values = {"true", "false"}; break;
    case OptionKind::integer:
      values = {std::to_string(domain.least), "3", std::to_string(domain.most)};
      break;
    case OptionKind::ratio: values = {"0", "0.1", "0.3333333333333333", "1"}; break;
    case OptionKind::words:
      values = {std::string(domain.words.front()), fmt::format("{}", fmt::join(domain.words, ","))};
      break;
    case OptionKind::word: values.assign(domain.words.begin(), domain.words.end()); break;
    case OptionKind::string:
    case OptionKind::path: values = {"", "true", "7", "none", "a=b, \"c\"\n", "ä"}; break;
    case OptionKind::bytes: values = {"1", "1099511627776"}; break;
    case OptionKind::operators: values = {"", "aten::add", "aten::add,aten::mul"}; break;
  }
  std::erase(values, usual);
  return values;
}

/// All values by name, except those set by other options.
std::set<std::string> texts_of(const Options& options) {
  std::set<std::string> texts;
  for (const OptionRow& row : option_rows()) {
    if (row.name == "partition") continue;
    texts.insert(std::string(row.name) + "=" + option_text(options, row.name));
  }
  return texts;
}

std::string text_of(const Options& options) { return to_json(options); }

TEST(Options, EveryRowIsWrittenAndReadAsText) {
  for (const OptionRow& row : option_rows()) {
    const auto values = other_values(row);
    EXPECT_FALSE(values.empty()) << row.name;
    for (const std::string& value : values) {
      Options options;
      set_option(options, row.name, value);
      EXPECT_EQ(option_text(options, row.name), value) << row.name;
      auto expected = texts_of(Options());
      auto found = texts_of(options);
      if (row.name != "partition") {
        expected.erase(std::string(row.name) + "=" + option_text(Options(), row.name));
        found.erase(std::string(row.name) + "=" + value);
      }
      EXPECT_EQ(found, expected) << row.name << " changes another option";
      set_option(options, row.name, option_text(Options(), row.name));
      EXPECT_EQ(texts_of(options), texts_of(Options())) << row.name;
    }
  }
}

TEST(Options, EveryRowIsWrittenAndReadAsJson) {
  for (const OptionRow& row : option_rows()) {
    for (const std::string& value : other_values(row)) {
      Options options;
      set_option(options, row.name, value);
      EXPECT_EQ(to_json(options_from_json(to_json(options))), to_json(options)) << row.name;
      // The option alone, with its JSON type.
      const auto all = nlohmann::json::parse(to_json(options));
      const nlohmann::json one{{std::string(row.name), all.at(std::string(row.name))}};
      EXPECT_EQ(to_json(options_from_json(one.dump())), to_json(options)) << one;
    }
  }
}

// A member without a row could only be set from C++.
TEST(Options, EveryMemberHasARow) {
  [[maybe_unused]] const auto& [name, max_programs, max_bytes, on_refusal, audit,
                                check_against_eager, cross_check_shapes, check_aliasing,
                                error_on_aliasing, partition, min_cut, budget, hook_filter,
                                prefetch, gathers, bucket, optimize_collectives, lowering,
                                keep_slow, kept_memory, gpu_graphs, higher, verify_graphs, dump_dir,
                                cache_dir, enable_cache, strict_cache, remote_cache,
                                disabled_passes, custom_pass] = Options();
  [[maybe_unused]] const auto& [far, chains, materialized, allowlist, reductions, intensive, random,
                                aggressive, distance, views, parameters, casts, weighting, doubling,
                                never_more, operators, ratio, solver, estimator] = min_cut;
  [[maybe_unused]] const auto& [bytes, effort, share, profile, compressors] = budget;
  constexpr size_t kMembers = 28 + 19 + 5;
  EXPECT_EQ(option_rows().size(), kMembers);
  std::set<std::string_view> names;
  for (const OptionRow& row : option_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_option(row.name), &row);
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_NE(row.stages, 0) << row.name;
  }
}

TEST(Options, TheTableStatesTheDefaultsOfTheStruct) {
  EXPECT_EQ(default_text(option_named("name")), "step");
  EXPECT_EQ(default_text(option_named("max_programs")), "256");
  EXPECT_EQ(default_text(option_named("audit")), "pow2");
  EXPECT_EQ(default_text(option_named("memory_budget")), "none");
  EXPECT_EQ(default_text(option_named("activation_memory_budget")), "1");
  EXPECT_EQ(default_text(option_named("verify_graphs")), "false; true in debug builds");
  EXPECT_EQ(text_of(options_from_json("{}")), text_of(Options()));
}

TEST(Options, AnEnumValueWithoutANameIsRefused) {
  Options options;
  options.partition = static_cast<Partitioner>(200);
  expect_error<OptionError>([&] { text_of(options); },
                            "one of as_written, min_cut, budget, priced");
}

TEST(Options, WrongValuesSayWhatIsRight) {
  Options options;
  const auto set = [&](const char* name, const char* value) {
    return [&options, name, value] { set_option(options, name, value); };
  };
  expect_error<OptionError>(set("verify_graphs", "maybe"),
                            "expected true or false for the option verify_graphs; found \"maybe\"");
  expect_error<OptionError>(set("max_programs", "0"), "an integer from 1");
  expect_error<OptionError>(set("max_programs", "many"), "an integer from 1");
  expect_error<OptionError>(set("max_programs", ""), "an integer from 1");
  expect_error<OptionError>(set("max_programs", "99999999999999999999"), "an integer from 1");
  expect_error<OptionError>(set("max_dist_from_bw", "4294967296"), "an integer from 0");
  expect_error<OptionError>(set("check_against_eager", "-1"), "an integer from 0");
  expect_error<OptionError>(set("audit", "sometimes"), "one of off, pow2, every");
  expect_error<OptionError>(set("memory_budget", "a lot"), "a number of bytes above 0");
  expect_error<OptionError>(set("memory_budget", "0"), "a number of bytes above 0");
  expect_error<OptionError>(set("memory_share", "1.5"), "a number from 0 to 1 or none");
  expect_error<OptionError>(set("activation_memory_budget", "nan"), "a number from 0 to 1");
  expect_error<OptionError>(set("activation_memory_budget", "none"), "a number from 0 to 1");
  EXPECT_EQ(text_of(options), text_of(Options()));
}

TEST(Options, UnknownNamesSayWhichOnesAreNear) {
  Options options;
  const auto set = [&](const char* name) {
    return [&options, name] { set_option(options, name, "1"); };
  };
  expect_error<OptionError>(set("max_program"),
                            "found \"max_program\"; did you mean max_programs?");
  expect_error<OptionError>(set("Audit"), "did you mean audit?");
  expect_error<OptionError>(set("budget_profil"), "did you mean budget_profile?");
  expect_error<OptionError>(set("effort"), "did you mean budget_effort?");
  expect_error<OptionError>(set("colour"), "antegrad options lists them");
}

TEST(Options, OptionsOfTheReferenceSayWhatBecameOfThem) {
  Options options;
  const auto set = [&](const char* name) {
    return [&options, name] { set_option(options, name, "true"); };
  };
  expect_error<OptionError>(set("debug_assert"), "here it is verify_graphs");
  expect_error<OptionError>(set("cse"), "no meaning here: always on");
  EXPECT_NO_THROW(set("unsafe_allow_optimization_of_collectives")());
}

TEST(Options, WhatTheReferenceCallsTheSameIsAnOption) {
  std::set<std::string_view> names;
  for (const ReferenceOption& option : reference_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    const bool same = option.counterpart == Counterpart::same;
    EXPECT_EQ(find_option(option.name) != nullptr, same) << option.name;
    EXPECT_EQ(option.here.empty(), option.counterpart != Counterpart::other_name) << option.name;
    EXPECT_EQ(explanation(option).empty(), same) << option.name;
    if (option.here.empty() || option.here.starts_with("antegrad ")) continue;
    EXPECT_NE(find_option(option.here.substr(0, option.here.find('='))), nullptr) << option.name;
  }
}

TEST(Options, ABudgetChoosesItsPartitionUnlessOneIsGiven) {
  const auto partition = [](const char* json) { return options_from_json(json).partition; };
  EXPECT_EQ(partition(R"({"memory_budget": "1MiB"})"), Partitioner::budget);
  EXPECT_EQ(partition(R"({"memory_share": 0.5})"), Partitioner::budget);
  EXPECT_EQ(partition(R"({"activation_memory_budget": 0.5})"), Partitioner::min_cut);
  EXPECT_EQ(partition(R"({"partition": "as_written", "memory_budget": 1024})"),
            Partitioner::as_written);
  EXPECT_EQ(partition(R"({"memory_budget": null, "recompute_views": false})"),
            Partitioner::as_written);
}

TEST(Options, OfTwoBudgetsTheLastIsMeant) {
  Options options;
  set_option(options, "memory_share", "0.5");
  set_option(options, "memory_budget", "1 KiB");
  EXPECT_EQ(option_text(options, "memory_share"), "none");
  EXPECT_EQ(options.budget.bytes, 1024);
  set_option(options, "memory_share", "0.5");
  EXPECT_EQ(option_text(options, "memory_budget"), "none");
  EXPECT_EQ(to_json(options), to_json(Options().with_memory_share(0.5)));
}

TEST(Options, JsonThatIsNoneSaysSo) {
  const auto read = [](const char* text) { return [text] { options_from_json(text); }; };
  expect_error<OptionError>(read("{"), "a JSON object of options");
  expect_error<OptionError>(read("[]"), "found array");
  expect_error<OptionError>(read(R"({"audit": 7})"),
                            "one of off, pow2, every for the option audit; found 7");
  expect_error<OptionError>(read(R"({"audit": {}})"), "found {}");
  expect_error<OptionError>(read(R"({"audi": "off"})"), "did you mean audit?");
  expect_error<OptionError>(read(R"({"verify_graphs": 1})"), "true or false");
  expect_error<OptionError>(read(R"({"memory_budget": true})"), "a number of bytes");
  expect_error<OptionError>(read(R"({"recomputable_ops": ["aten::add", 1]})"),
                            "names such as aten::add");
  expect_error<OptionError>([] { to_json(Options().with_name("\xff")); }, "UTF-8");
}

TEST(Options, AFileHoldsWhatWasSaved) {
  const TemporaryFolder folder;
  const std::string file = folder / "options.json";
  const auto options = Options().with_memory_budget(512_MiB).with_audit(Audit::off);
  save_options(options, file);
  EXPECT_EQ(to_json(load_options(file)), to_json(options));
  std::ofstream(file) << R"({"audit": "never"})";
  expect_error<OptionError>([&] { load_options(file); }, "in " + file);
  std::remove(file.c_str());
  expect_error<InputError>([&] { load_options(file); }, "a file that can be read");
  expect_error<InputError>([&] { save_options(options, "/proc/none/options.json"); },
                           "a file that can be written");
}

TEST(Options, MembersOutOfRangeAreFound) {
  check_options(Options());
  check_options(Options().with_memory_share(0));
  expect_error<OptionError>([] { check_options(Options().with_max_programs(0)); },
                            "the option max_programs; found 0");
  expect_error<OptionError>([] { check_options(Options().with_check_against_eager(-1)); },
                            "check_against_eager");
  expect_error<OptionError>([] { check_options(Options().with_memory_share(1.5)); },
                            "memory_share; found 1.5");
  expect_error<OptionError>([] { check_options(Options().with_memory_budget(-1)); },
                            "memory_budget; found -1");
}

}  // namespace options_test
}  // namespace antegrad::testing
