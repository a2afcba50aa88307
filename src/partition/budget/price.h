#pragma once

/// \file
/// The best plan if each saved byte has a price: a minimum cut, exact as long as peaks do not
/// count.
///
/// A cut pays the time of each recomputed operation and the price of each saved byte, with values
/// packed in the way that is cheapest at that price. Sweeping the price gives the plans from which
/// the search starts (docs/budget.md). They are optimal for saved bytes, not for peaks: in a
/// chain, recomputing the last value recomputes all of it at once.

#include <cstdint>
#include <vector>

#include "partition/budget/plan.h"
#include "partition/max_flow.h"

namespace antegrad::budget {

class PriceCuts {
 public:
  explicit PriceCuts(const Problem& problem);

  /// Bytes of each value. To be changed for values that are saved at no price.
  const std::vector<int64_t>& bytes() const { return bytes_; }

  /// The plan at that price, in picoseconds per byte.
  Plan cut(double price, const std::vector<int64_t>& bytes);
  /// Plans for all prices, those that save most first; at most about 2^`depth` of them.
  std::vector<Plan> sweep(const std::vector<int64_t>& bytes, int depth = 6);

 private:
  /// A way to keep a value.
  struct Way {
    Choice choice = kSave;
    int64_t bytes = 0;
    int64_t time = 0;
    double cost = 0;  ///< picoseconds
  };
  Way best_way(int32_t value, double price, const std::vector<int64_t>& bytes) const;
  struct Cut {
    Plan plan;
    int64_t saved = 0;  ///< weighted bytes
    int64_t time = 0;   ///< picoseconds of recomputation and of packing
  };
  Cut solve(double price, const std::vector<int64_t>& bytes);
  void between(const Cut& low, const Cut& high, const std::vector<int64_t>& bytes, int depth,
               std::vector<Plan>& plans);
  void drop_useless(Plan& plan) const;

  const Problem& problem_;
  std::vector<int64_t> bytes_;
  std::vector<bool> demanded_;  // by value: the backward reads it
  std::vector<FlowEdge> edges_;
  std::vector<std::pair<size_t, int32_t>> priced_;  // edge, value
};

}  // namespace antegrad::budget
