#include "cache/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "files/private_folder.h"
#include "graph/hash.h"
#include "graph/split.h"

namespace antegrad {

std::string name_of_plan(std::string_view key) { return to_string(hash_of_bytes(key)); }

std::string folder_of_plans(const std::string& caches) {
  return caches.empty() ? "" : caches + "/plans";
}

PlanCache& PlanCache::of_process() {
  static auto& cache = *new PlanCache();  // outlives all threads
  return cache;
}

PlanCache::Found PlanCache::find(const std::string& key, const std::string& folder) const {
  {
    const std::lock_guard guard(mutex_);
    if (const auto known = bundled_.find(key); known != bundled_.end()) {
      return {known->second, "", "a bundle"};
    }
  }
  const auto opened = PrivateFolder::open(folder, kPlanSuffix);
  if (!opened) return {};  // keep() says why
  auto entry = opened->read(name_of_plan(key), key);
  if (entry.bytes.empty()) return {"", std::move(entry.damage), ""};
  return {std::move(entry.bytes), "", "the folder"};
}

std::string PlanCache::keep(const std::string& key, const std::string& plan,
                            const std::string& folder) {
  const auto opened = PrivateFolder::open(folder, kPlanSuffix);
  if (!opened) return opened.failure().text;
  auto failure = opened->keep_bytes(plan, name_of_plan(key), key);
  const bool trims = [&] {
    const std::lock_guard guard(mutex_);
    kept_bytes_ += std::ssize(plan);
    return kept_bytes_ >= kMostPlanBytes / 16 && std::exchange(kept_bytes_, 0) > 0;
  }();
  if (trims) opened->trim(kMostPlanBytes);
  return failure;
}

void PlanCache::take(std::vector<KeptPlan> plans) {
  const std::lock_guard guard(mutex_);
  for (KeptPlan& kept : plans) bundled_[std::move(kept.key)] = std::move(kept.plan);
}

std::string PlanCache::why_not_bundled(const std::string& key) const {
  const auto wanted = split(key, '\n');
  std::vector<std::string> least;
  const std::lock_guard guard(mutex_);
  for (const auto& [bundled, plan] : bundled_) {
    const auto lines = split(bundled, '\n');
    std::vector<std::string> differences;
    for (size_t i = 0; i < std::min(lines.size(), wanted.size()); ++i) {
      if (lines[i] == wanted[i]) continue;
      differences.push_back(fmt::format("\"{}\" instead of \"{}\"", lines[i], wanted[i]));
    }
    if (least.empty() || differences.size() < least.size()) least = std::move(differences);
  }
  return fmt::format("{}", fmt::join(least, "; "));
}

void PlanCache::add(const std::shared_ptr<const LivePlan>& plan) {
  const std::lock_guard guard(mutex_);
  if (live_.size() >= sweep_at_) {
    std::erase_if(live_, [](const auto& known) { return known.expired(); });
    sweep_at_ = std::max(sweep_at_, 2 * live_.size());
  }
  live_.push_back(plan);
}

std::vector<KeptPlan> PlanCache::in_use() const {
  std::map<std::string, std::shared_ptr<const LivePlan>> by_key;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& known : live_) {
      if (auto plan = known.lock()) by_key.emplace(plan->key, plan);
    }
  }
  std::vector<KeptPlan> plans;
  for (const auto& [key, plan] : by_key) plans.push_back({key, plan->plan()});
  return plans;
}

}  // namespace antegrad
