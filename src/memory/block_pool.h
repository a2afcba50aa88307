#pragma once

/// \file
/// Blocks of one range of memory, as offsets.

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace antegrad {

/// From its first byte on, an interval of a range.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Gives out blocks of a range, each at the start of the smallest gap that has room (best fit:
/// Knuth, The Art of Computer Programming, 2.5), and above the last block only if none has. So what
/// was used lies at the start of the range. Plain arithmetic: the memory is the caller's. Not
/// thread-safe.
class BlockPool {
 public:
  /// `bytes`: the range. Blocks begin at multiples of `alignment`, a power of two.
  BlockPool(int64_t bytes, int64_t alignment);

  /// The offset of a block of so many bytes, of 1 or more. Nothing if no interval has room.
  std::optional<int64_t> allocate(int64_t bytes);
  /// Gives back the block at an offset, which was allocated. Returns its bytes, rounded up to the
  /// alignment.
  int64_t free(int64_t offset);

  /// Bytes of all blocks.
  int64_t used() const { return used_; }
  /// The end of the last block that there was.
  int64_t top() const { return top_; }
  /// The intervals below top() that no block has, in order.
  std::vector<Interval> gaps() const;
  /// Forgets what was used above the last block that there is.
  void lower_top();

 private:
  const int64_t alignment_;
  int64_t used_ = 0;
  int64_t top_ = 0;
  std::map<int64_t, int64_t> free_;              // end of each free interval by its begin
  std::unordered_map<int64_t, int64_t> blocks_;  // bytes by offset
};

}  // namespace antegrad
