#include "partition/budget/archive.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace antegrad::budget {

void Archive::offer(const Measure& measure, const Plan& plan, std::span<const Change> changes) {
  if (measure.peak == kHopeless.peak) return;
  auto next = points_.upper_bound(measure.peak);
  if (next != points_.begin() && std::prev(next)->second.extra <= measure.extra) return;
  auto changed = std::make_shared<Plan>(plan);
  for (const Change& change : changes) (*changed)[change.value] = change.choice;
  while (next != points_.end() && next->second.extra >= measure.extra) next = points_.erase(next);
  points_.insert_or_assign(measure.peak,
                           PlanPoint{measure.peak, measure.extra, std::move(changed)});
}

std::optional<PlanPoint> Archive::at_most(int64_t peak, double byte_time) const {
  const auto end = points_.upper_bound(peak);
  if (end == points_.begin()) return std::nullopt;
  if (byte_time == 0) return std::prev(end)->second;
  return std::ranges::min_element(points_.begin(), end, {},
                                  [&](const auto& entry) {
                                    const PlanPoint& point = entry.second;
                                    return static_cast<double>(point.extra) +
                                           byte_time * static_cast<double>(point.peak);
                                  })
      ->second;
}

std::vector<PlanPoint> Archive::points() const {
  std::vector<PlanPoint> points;
  for (auto it = points_.rbegin(); it != points_.rend(); ++it) points.push_back(it->second);
  return points;
}

}  // namespace antegrad::budget
