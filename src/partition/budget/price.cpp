#include "partition/budget/price.h"

#include <algorithm>
#include <cmath>

namespace antegrad::budget {
namespace {

constexpr double kLowestPrice = 1e-4;  // picoseconds per byte
constexpr double kHighestPrice = 1e10;

}  // namespace

// Vertices: operations of the forward, then values, then source and sink.
PriceCuts::PriceCuts(const Problem& problem) : problem_(problem) {
  const auto values = static_cast<int32_t>(problem.values.size());
  const int32_t forward = problem.forward_count;
  const int32_t source = forward + values;
  const int32_t sink = source + 1;
  for (int32_t v = 0; v < values; ++v) {
    bytes_.push_back(kept_bytes(problem, v, kSave));
    demanded_.push_back(problem.is_needed_in_backward(v));
  }
  for (int32_t o = 0; o < forward; ++o) {
    const Operation& operation = problem.operation(o);
    const int64_t again = !operation.again     ? kInfiniteCapacity
                          : operation.required ? operation.time
                                               : 0;
    if (again > 0) edges_.push_back({source, o, again});
    for (const int32_t v : problem.makes[o]) {
      if (problem.value(v).result) continue;
      priced_.emplace_back(edges_.size(), v);
      edges_.push_back({o, forward + v, 0});
    }
    for (const int32_t v : problem.reads[o]) {
      if (!problem.value(v).result) edges_.push_back({forward + v, o, kInfiniteCapacity});
    }
  }
  for (int32_t v = 0; v < values; ++v) {
    const bool here = problem.value(v).maker < forward && !problem.value(v).result;
    if (here && demanded_[v]) edges_.push_back({forward + v, sink, kInfiniteCapacity});
  }
}

void PriceCuts::drop_useless(Plan& plan) const {
  std::vector<bool> used = demanded_;
  needed_items(problem_.forward_count, problem_.reads, used, [&](int32_t o) {
    const auto makes = problem_.makes[o];
    const bool runs = std::ranges::any_of(makes, [&](int32_t v) {
      return used[v] && !is_kept(plan[v]) && !problem_.value(v).result;
    });
    for (const int32_t v : makes) {
      if (!used[v]) plan[v] = kRecompute;
    }
    return runs;
  });
}

PriceCuts::Way PriceCuts::best_way(int32_t value, double price,
                                   const std::vector<int64_t>& bytes) const {
  const auto cost = [&](Way way) {
    way.cost = price * static_cast<double>(way.bytes) + static_cast<double>(way.time);
    return way;
  };
  const int32_t always = packing_of(problem_, value, kSave);
  const int64_t saving = problem_.value(value).saving_time;
  Way best = cost({kSave, bytes[value], saving + (always < 0 ? 0 : problem_.packing(always).time)});
  if (problem_.value(value).always_saved) return best;
  for (const Packing& packing : problem_.choosable_packings(value)) {
    const Way packed = cost({packed_by(packing), packing.bytes, saving + packing.time});
    if (packed.cost < best.cost) best = packed;
  }
  return best;
}

PriceCuts::Cut PriceCuts::solve(double price, const std::vector<int64_t>& bytes) {
  // Saving never costs more than recomputing everything.
  const auto most = static_cast<double>(problem_.time + 1);
  for (const auto& [edge, value] : priced_) {
    const double cost = std::min(most, best_way(value, price, bytes).cost);
    edges_[edge].capacity = problem_.value(value).always_saved  ? 0
                            : problem_.value(value).never_saved ? kInfiniteCapacity
                                                                : 1 + std::llround(cost);
  }
  const auto vertices = static_cast<int32_t>(problem_.values.size()) + problem_.forward_count + 2;
  const FlowCut cut = minimum_cut(vertices, edges_, vertices - 2, vertices - 1, NearestTo::source);
  Cut result;
  result.plan.assign(problem_.values.size(), kRecompute);
  for (const auto& [edge, value] : priced_) {
    const bool separated =
        cut.on_source_side[edges_[edge].from] && !cut.on_source_side[edges_[edge].to];
    if (separated) result.plan[value] = best_way(value, price, bytes).choice;
  }
  for (int32_t o = 0; o < problem_.forward_count; ++o) {
    if (!cut.on_source_side[o] && problem_.operation(o).required) {
      result.time += problem_.operation(o).time;
    }
  }
  drop_useless(result.plan);
  for (size_t v = 0; v < bytes.size(); ++v) {
    if (!is_kept(result.plan[v])) continue;
    const int32_t packing = packing_of(problem_, static_cast<int32_t>(v), result.plan[v]);
    const bool as_weighed = result.plan[v] == kSave;
    result.saved += as_weighed ? bytes[v] : problem_.packing(packing).bytes;
    result.time += problem_.value(static_cast<int32_t>(v)).saving_time;
    if (packing >= 0) result.time += problem_.packing(packing).time;
  }
  return result;
}

Plan PriceCuts::cut(double price, const std::vector<int64_t>& bytes) {
  return solve(price, bytes).plan;
}

/// Searches at the price where both plans cost the same: any cheaper plan there lies between them.
void PriceCuts::between(const Cut& low, const Cut& high, const std::vector<int64_t>& bytes,
                        int depth, std::vector<Plan>& plans) {
  if (depth == 0 || high.saved >= low.saved || high.time <= low.time) return;
  const double price =
      static_cast<double>(high.time - low.time) / static_cast<double>(low.saved - high.saved);
  const Cut middle = solve(price, bytes);
  if (middle.saved >= low.saved || middle.saved <= high.saved) return;
  between(low, middle, bytes, depth - 1, plans);
  plans.push_back(middle.plan);
  between(middle, high, bytes, depth - 1, plans);
}

std::vector<Plan> PriceCuts::sweep(const std::vector<int64_t>& bytes, int depth) {
  const Cut low = solve(kLowestPrice, bytes);
  const Cut high = solve(kHighestPrice, bytes);
  std::vector<Plan> plans = {low.plan};
  between(low, high, bytes, depth, plans);
  if (high.plan != low.plan) plans.push_back(high.plan);
  return plans;
}

}  // namespace antegrad::budget
