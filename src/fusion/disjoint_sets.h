#pragma once

/// \file
/// Disjoint sets of 0 to n - 1, with path halving (Tarjan and van Leeuwen, 1984).

#include <cstdint>
#include <numeric>
#include <vector>

namespace antegrad {

class DisjointSets {
 public:
  /// Each number alone.
  explicit DisjointSets(int32_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  /// The number that stands for the set of `member`.
  int32_t find(int32_t member) {
    while (parent_[member] != member) {
      int32_t& parent = parent_[member];
      parent = parent_[parent];
      member = parent;
    }
    return member;
  }
  /// `root` stands for both sets from now on. Both must stand for their sets.
  void unite(int32_t root, int32_t gone) { parent_[gone] = root; }

 private:
  std::vector<int32_t> parent_;
};

}  // namespace antegrad
