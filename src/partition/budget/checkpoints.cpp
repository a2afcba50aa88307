#include "partition/budget/checkpoints.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace antegrad::budget {
namespace {

class Places {
 public:
  Places(const Problem& problem, const Candidates& candidates, Crossing crossing)
      : problem_(problem),
        candidates_(candidates),
        crossing_(crossing),
        until_(problem.forward_times()) {}

  /// The values kept with this number of segments.
  std::vector<int32_t> kept(int32_t segments) const {
    const int32_t length = problem_.forward_count / segments;
    std::vector<int64_t> bytes;
    for (int32_t p = 0; p < problem_.forward_count; ++p) {
      int64_t sum = 0;
      for (const int32_t value : crossing(p, length)) sum += kept_bytes(problem_, value, kSave);
      bytes.push_back(sum);
    }
    std::vector<int32_t> values;
    const double whole = static_cast<double>(until_.back());
    for (int32_t i = 1; i < segments; ++i) {
      const double center = whole * i / segments;
      const double half = whole / segments / 2;
      const auto distance = [&](int32_t p) {
        return std::abs(static_cast<double>(until_[p]) - center);
      };
      int32_t best = -1;
      for (int32_t p = 0; p < problem_.forward_count; ++p) {
        if (distance(p) > half) continue;
        const auto least = [&](int32_t q) { return static_cast<double>(bytes[q]); };
        if (best < 0 || least(p) < 0.99 * least(best) ||
            (least(p) <= 1.01 * least(best) && distance(p) < distance(best))) {
          best = p;
        }
      }
      if (best < 0) continue;
      for (const int32_t value : crossing(best, length)) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

 private:
  std::vector<int32_t> crossing(int32_t place, int32_t length) const {
    std::vector<int32_t> values;
    for (const int32_t value : candidates_.crossing(place)) {
      const auto readers = problem_.readers[value];
      const bool soon = std::ranges::any_of(readers, [&](int32_t reader) {
        return reader > place && reader <= place + length + length / 2 + 1 &&
               reader < problem_.forward_count;
      });
      if (crossing_ == Crossing::all || soon) values.push_back(value);
    }
    return values;
  }

  const Problem& problem_;
  const Candidates& candidates_;
  Crossing crossing_;
  std::vector<int64_t> until_;  // Problem::forward_times()
};

}  // namespace

std::vector<Plan> checkpoint_plans(const Problem& problem, const Candidates& candidates,
                                   PriceCuts& cuts, Crossing crossing,
                                   const std::vector<int32_t>& segments, int depth) {
  std::vector<Plan> plans;
  const Places places(problem, candidates, crossing);
  std::vector<int32_t> before;
  for (const int32_t count : segments) {
    if (count > problem.forward_count / 3) break;
    const std::vector<int32_t> kept = places.kept(count);
    if (kept.empty() || kept == before) continue;
    before = kept;
    std::vector<int64_t> bytes = cuts.bytes();
    Plan only(problem.values.size(), kRecompute);
    int32_t last = 0;
    for (const int32_t value : kept) {
      bytes[value] = 0;
      only[value] = kSave;
      last = std::max(last, problem.value(value).maker);
    }
    for (Plan& plan : cuts.sweep(bytes, depth)) plans.push_back(std::move(plan));
    plans.push_back(only);
    // Everything after the last cut point is needed at once, so it is kept.
    for (const int32_t value : candidates.values()) {
      const bool after = problem.value(value).maker > last;
      if (after && problem.is_read_in_backward(value)) only[value] = kSave;
    }
    plans.push_back(std::move(only));
  }
  return plans;
}

}  // namespace antegrad::budget
