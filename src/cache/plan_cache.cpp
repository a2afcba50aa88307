#include "cache/plan_cache.h"

#include <utility>

#include "files/private_folder.h"
#include "graph/hash.h"

namespace antegrad {
namespace {

constexpr const char* kMade = "plan";

}  // namespace

std::string name_of_plan(std::string_view key) { return to_string(hash_of_bytes(key)); }

std::string folder_of_plans(const std::string& caches) {
  return caches.empty() ? "" : caches + "/plans";
}

PlanCache& PlanCache::of_process() {
  static auto& cache = *new PlanCache();  // outlives all threads
  return cache;
}

PlanCache::Found PlanCache::find(const std::string& key, const std::string& folder) {
  Found found;
  {
    const std::lock_guard guard(mutex_);
    if (const auto known = bundled_.find(key); known != bundled_.end()) {
      found = {known->second, "", "a bundle"};
    }
  }
  if (found.plan.empty()) {
    const auto opened = PrivateFolder::open(folder, kPlanSuffix);
    if (!opened) return {"", opened.failure().text, ""};
    auto entry = opened->read(name_of_plan(key), key);
    if (entry.bytes.empty()) return {"", std::move(entry.damage), ""};
    found = {std::move(entry.bytes), "", "the folder"};
  }
  const std::lock_guard guard(mutex_);
  used_[key] = found.plan;
  return found;
}

std::string PlanCache::keep(const std::string& key, const std::string& plan,
                            const std::string& folder) {
  {
    const std::lock_guard guard(mutex_);
    used_[key] = plan;
  }
  const auto opened = PrivateFolder::open(folder, kPlanSuffix);
  if (!opened) return opened.failure().text;
  const auto work = opened->work();
  if (!work) return work.failure().text;
  if (const auto failure = work->write(kMade, plan)) return failure->text;
  auto entry = opened->keep(*work, kMade, name_of_plan(key), key);
  if (entry.damage.empty()) opened->trim(kMostPlanBytes);
  return std::move(entry.damage);
}

void PlanCache::take(std::vector<KeptPlan> plans) {
  const std::lock_guard guard(mutex_);
  for (KeptPlan& kept : plans) bundled_[std::move(kept.key)] = std::move(kept.plan);
}

std::vector<KeptPlan> PlanCache::used() const {
  const std::lock_guard guard(mutex_);
  std::vector<KeptPlan> plans;
  for (const auto& [key, plan] : used_) plans.push_back({key, plan});
  return plans;
}

}  // namespace antegrad
