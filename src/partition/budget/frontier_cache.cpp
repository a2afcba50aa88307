#include "partition/budget/frontier_cache.h"

#include <algorithm>
#include <list>
#include <mutex>

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

}  // namespace antegrad::budget
