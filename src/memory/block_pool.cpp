#include "memory/block_pool.h"

#include <algorithm>
#include <iterator>

namespace antegrad {

BlockPool::BlockPool(int64_t bytes, int64_t alignment) : alignment_(alignment) {
  if (bytes > 0) free_.emplace(0, bytes);
}

std::optional<int64_t> BlockPool::allocate(int64_t bytes) {
  const int64_t size = (bytes + alignment_ - 1) & -alignment_;
  const auto room = [](const auto& interval) { return interval.second - interval.first; };
  auto found = free_.end();
  for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
    if (room(*gap) >= size && (found == free_.end() || room(*gap) < room(*found))) found = gap;
  }
  if (found == free_.end()) return std::nullopt;
  const auto [begin, end] = *found;
  const auto next = free_.erase(found);
  if (begin + size < end) free_.emplace_hint(next, begin + size, end);
  blocks_.emplace(begin, size);
  used_ += size;
  top_ = std::max(top_, begin + size);
  return begin;
}

int64_t BlockPool::free(int64_t offset) {
  const auto block = blocks_.find(offset);
  const int64_t size = block->second;
  blocks_.erase(block);
  used_ -= size;
  int64_t begin = offset, end = offset + size;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == end) {
    end = next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
  } else {
    free_.emplace_hint(next, begin, end);
  }
  return size;
}

std::vector<Interval> BlockPool::gaps() const {
  std::vector<Interval> found;
  for (const auto& [begin, end] : free_) {
    if (begin < top_) found.push_back({begin, std::min(end, top_)});
  }
  return found;
}

void BlockPool::lower_top() {
  if (!free_.empty() && free_.rbegin()->second >= top_) {
    top_ = std::min(top_, free_.rbegin()->first);
  }
}

}  // namespace antegrad
