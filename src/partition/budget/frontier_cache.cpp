#include "partition/budget/frontier_cache.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "partition/budget/carry.h"

namespace antegrad::budget {
namespace {

struct Kept {
  BudgetEffort effort;
  Problem problem;
  std::shared_ptr<const Frontier> frontier;
};

class Cache {
 public:
  std::shared_ptr<const Frontier> find(const Problem& problem, BudgetEffort effort) {
    const std::lock_guard lock(mutex_);
    const auto it = std::ranges::find_if(
        kept_, [&](const Kept& kept) { return kept.effort == effort && kept.problem == problem; });
    if (it == kept_.end()) return nullptr;
    kept_.splice(kept_.begin(), kept_, it);
    return it->frontier;
  }

  /// Those of other sizes, most recently used first.
  std::vector<std::shared_ptr<const Frontier>> find_like(const Problem& problem,
                                                         BudgetEffort effort) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const Frontier>> found;
    for (const Kept& kept : kept_) {
      if (kept.effort == effort && same_structure(kept.problem, problem)) {
        found.push_back(kept.frontier);
      }
    }
    return found;
  }

  void add(Kept kept) {
    const std::lock_guard lock(mutex_);
    kept_.push_front(std::move(kept));
    if (kept_.size() > kKeptFrontiers) kept_.pop_back();
  }

 private:
  std::mutex mutex_;
  std::list<Kept> kept_;  // most recently used first
};

Cache& cache() {
  static auto* instance = new Cache();
  return *instance;
}

}  // namespace

std::shared_ptr<const Frontier> frontier_of(const Problem& problem,
                                            const FrontierOptions& options) {
  if (auto known = cache().find(problem, options.effort)) return known;
  auto frontier = std::make_shared<const Frontier>(build_frontier(problem, options));
  cache().add({options.effort, problem, frontier});
  return frontier;
}

KnownFrontier known_frontier(const Problem& problem, BudgetEffort effort) {
  if (auto known = cache().find(problem, effort)) return {std::move(known)};
  for (const auto& other : cache().find_like(problem, effort)) {
    if (auto carried = carried_frontier(problem, *other)) {
      return {std::make_shared<const Frontier>(*std::move(carried)), true};
    }
  }
  return {};
}

}  // namespace antegrad::budget
