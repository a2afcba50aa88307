#include "partition/budget/live_profile.h"

#include <algorithm>

namespace antegrad::budget {
namespace {

constexpr size_t kBlock = 32;

}  // namespace

void LiveProfile::build(std::span<const double> made, std::span<const double> scratch,
                        std::span<const double> freed) {
  const size_t count = made.size();
  live_.resize(count);
  after_.resize(count);
  const size_t blocks = (count + kBlock - 1) / kBlock;
  block_max_.assign(blocks, 0);
  block_min_.assign(blocks, std::numeric_limits<double>::max());
  block_sum_.assign(blocks, 0);
  double live = 0;
  for (size_t i = 0; i < count; ++i) {
    live += made[i];
    const double running = live + scratch[i];
    live_[i] = running;
    const size_t block = i / kBlock;
    block_max_[block] = std::max(block_max_[block], running);
    block_min_[block] = std::min(block_min_[block], running);
    block_sum_[block] += running;
    live -= freed[i];
    after_[i] = live;
  }
}

void LiveProfile::count(size_t begin, size_t end, double more, Load& load) const {
  const double room = budget_ - more;
  double most = 0;
  double over = 0;
  const auto one_by_one = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      most = std::max(most, live_[i] + more);
      over += std::max(0.0, live_[i] - room);
    }
  };
  while (begin < end) {
    const size_t block = begin / kBlock;
    const size_t block_end = std::min((block + 1) * kBlock, live_.size());
    if (begin != block * kBlock || end < block_end) {
      const size_t to = std::min(end, block_end);
      one_by_one(begin, to);
      begin = to;
      continue;
    }
    most = std::max(most, block_max_[block] + more);
    if (block_max_[block] > room) {
      if (block_min_[block] >= room) {
        over += block_sum_[block] - room * static_cast<double>(block_end - begin);
      } else {
        one_by_one(begin, block_end);
      }
    }
    begin = block_end;
  }
  load.peak = std::max(load.peak, most);
  load.excess += over;
}

void LiveProfile::count_new(size_t before, double more, Load& load) const {
  const double live = (before == 0 ? 0 : after_[before - 1]) + more;
  load.peak = std::max(load.peak, live);
  load.excess += std::max(0.0, live - budget_);
}

}  // namespace antegrad::budget
