#include "support/options.h"

#include <cstdlib>
#include <sstream>
#include <string>

#include "partition/min_cut_options.h"

namespace antegrad::testing {

Options tested_options() {
  auto options = Options().with_verify_graphs(true);
  const char* settings = std::getenv("ANTEGRAD_TEST_MIN_CUT");
  if (settings == nullptr) return options;
  MinCutOptions min_cut;
  std::istringstream words(settings);
  for (std::string word; words >> word;) apply_setting(min_cut, word);
  return options.with_min_cut(std::move(min_cut));
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
