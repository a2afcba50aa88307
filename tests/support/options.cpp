#include "support/options.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>

#include "options/settings.h"
#include "support/exact_hooks.h"

namespace antegrad::testing {
namespace {

std::atomic<int64_t> asked_for = 0;

// The value of ANTEGRAD_TEST_HOOKS; empty if it is not set.
struct WantedHooks {
  std::string name, filter;
};

const WantedHooks& wanted_hooks() {
  static const auto* wanted = [] {
    auto* found = new WantedHooks();
    if (const char* words = std::getenv("ANTEGRAD_TEST_HOOKS")) {
      std::istringstream(words) >> found->name >> found->filter;
    }
    return found;
  }();
  return *wanted;
}

}  // namespace

TestedHooks::TestedHooks() {
  if (!wanted_hooks().name.empty()) scope_.emplace(exact_hooks(wanted_hooks().name));
}

bool is_a_variant() {
  constexpr const char* kChoices[] = {"ANTEGRAD_TEST_MIN_CUT", "ANTEGRAD_TEST_BUDGET",
                                      "ANTEGRAD_TEST_PRICED",  "ANTEGRAD_TEST_HOOKS",
                                      "ANTEGRAD_TEST_TAGS",    "ANTEGRAD_TEST_LOWERING"};
  return std::any_of(std::begin(kChoices), std::end(kChoices),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

int64_t options_asked_for() { return asked_for; }

Options tested_options() {
  ++asked_for;
  auto options = Options().with_verify_graphs(true).with_lowering(Lowering::off);
  if (const char* lowering = std::getenv("ANTEGRAD_TEST_LOWERING")) {
    apply_settings({{"lowering", lowering}, {"keep_slow_kernels", "true"}}, options);
  }
  if (const auto& hooks = wanted_hooks(); !hooks.filter.empty()) {
    apply_settings({{"saved_tensors_hooks_filtering_mode", hooks.filter}}, options);
  }
  if (const char* share = std::getenv("ANTEGRAD_TEST_BUDGET")) {
    return options.with_memory_share(std::atof(share)).with_budget_profile(BudgetProfile::off);
  }
  if (std::getenv("ANTEGRAD_TEST_PRICED") != nullptr) {
    return options.with_partition(Partitioner::priced);
  }
  const char* settings = std::getenv("ANTEGRAD_TEST_MIN_CUT");
  if (settings == nullptr) return options;
  MinCutOptions min_cut;
  std::istringstream words(settings);
  for (std::string word; words >> word;) apply_setting(min_cut, word);
  return options.with_min_cut(std::move(min_cut));
}

namespace {

// Null if no tags are requested.
const CheckpointOptions* tested_tags() {
  static const auto* tags = []() -> const CheckpointOptions* {
    const char* seed = std::getenv("ANTEGRAD_TEST_TAGS");
    if (seed == nullptr) return nullptr;
    auto* options = new CheckpointOptions();
    options->policy = [seed = std::string(seed)](std::string_view op) {
      const auto dice = std::hash<std::string>()(seed + std::string(op)) % 10;
      return dice < 5 ? static_cast<Recompute>(dice) : Recompute::must_recompute;
    };
    return options;
  }();
  return tags;
}

}  // namespace

TestedBlock::TestedBlock() {
  if (const auto* tags = tested_tags()) block_.emplace(*tags);
}

MinCutOptions without_bans() {
  MinCutOptions options;
  options.aggressive_recomputation = true;
  options.ban_recompute_reductions = false;
  options.ban_recompute_compute_intensive = false;
  options.ban_recompute_random = false;
  return options;
}

}  // namespace antegrad::testing
