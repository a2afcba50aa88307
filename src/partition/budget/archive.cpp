#include "partition/budget/archive.h"

#include <algorithm>

namespace antegrad::budget {
namespace {

constexpr int64_t kSteps = 8192;

}  // namespace

Archive::Archive(int64_t highest)
    : width_(std::max<int64_t>(1, (highest + kSteps - 1) / kSteps)), best_(kSteps + 1) {}

size_t Archive::step_of(int64_t peak) const {
  // A step holds peaks up to and including its upper end.
  return static_cast<size_t>(std::clamp<int64_t>((peak + width_ - 1) / width_, 0, kSteps));
}

bool Archive::is_better(const Measure& measure, const PlanPoint& than) const {
  if (!than.plan) return true;
  return measure.extra != than.extra ? measure.extra < than.extra : measure.peak < than.peak;
}

void Archive::offer(const Measure& measure, const Plan& plan, std::span<const Change> changes) {
  ++offers_;
  if (measure.peak == kHopeless.peak) return;
  const bool smaller = !smallest_.plan || measure.peak < smallest_.peak ||
                       (measure.peak == smallest_.peak && measure.extra < smallest_.extra);
  size_t step = step_of(measure.peak);
  if (!smaller && !is_better(measure, best_[step])) return;
  auto changed = std::make_shared<Plan>(plan);
  for (const Change& change : changes)
    (*changed)[static_cast<size_t>(change.value)] = change.choice;
  const PlanPoint point{measure.peak, measure.extra, std::move(changed)};
  if (smaller) smallest_ = point;
  for (; step < best_.size() && is_better(measure, best_[step]); ++step) best_[step] = point;
}

std::optional<PlanPoint> Archive::at_most(int64_t peak) const {
  if (!smallest_.plan || smallest_.peak > peak) return std::nullopt;
  const size_t step = step_of(peak);
  // The last step may hold plans above the budget; the one below it never does.
  if (best_[step].plan && best_[step].peak <= peak) return best_[step];
  if (step > 0 && best_[step - 1].plan) return best_[step - 1];
  return smallest_;
}

std::vector<PlanPoint> Archive::points() const {
  std::vector<PlanPoint> points;
  for (auto it = best_.rbegin(); it != best_.rend() && it->plan; ++it) {
    if (points.empty() || points.back().plan != it->plan) points.push_back(*it);
  }
  if (!empty() && points.back().plan != smallest_.plan) points.push_back(smallest_);
  return points;
}

}  // namespace antegrad::budget
