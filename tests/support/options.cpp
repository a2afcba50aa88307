#include "support/options.h"

#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>

#include "options/settings.h"

namespace antegrad::testing {

Options tested_options() {
  auto options = Options().with_verify_graphs(true);
  if (const char* share = std::getenv("ANTEGRAD_TEST_BUDGET")) {
    return options.with_memory_share(std::atof(share));
  }
  const char* settings = std::getenv("ANTEGRAD_TEST_MIN_CUT");
  if (settings == nullptr) return options;
  MinCutOptions min_cut;
  std::istringstream words(settings);
  for (std::string word; words >> word;) apply_setting(min_cut, word);
  return options.with_min_cut(std::move(min_cut));
}

namespace {

// Null where no tags are wanted.
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
