// Blocks of a range of memory: where they lie, and how much of it training steps use.

#include "memory/block_pool.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "exported_graphs.h"
#include "memory/liveness.h"
#include "memory/peak.h"
#include "partition/default_partition.h"

namespace antegrad::testing {
namespace block_pool_test {

TEST(BlockPool, ABlockLiesInTheSmallestGapWithRoom) {
  BlockPool pool(2048, 64);
  EXPECT_EQ(pool.allocate(200), 0);  // takes 256
  EXPECT_EQ(pool.allocate(64), 256);
  EXPECT_EQ(pool.allocate(128), 320);
  EXPECT_EQ(pool.allocate(64), 448);
  EXPECT_EQ(pool.free(0), 256);
  EXPECT_EQ(pool.free(320), 128);
  EXPECT_EQ(pool.gaps(), (std::vector<Interval>{{0, 256}, {320, 448}}));
  EXPECT_EQ(pool.allocate(65), 320);
  EXPECT_EQ(pool.allocate(64), 0);
  EXPECT_EQ(pool.allocate(256), 512);
  EXPECT_EQ(pool.used(), 64 + 64 + 128 + 64 + 256);
  EXPECT_EQ(pool.top(), 768);
}

TEST(BlockPool, GapsBecomeOneAndTheTopStaysUntilItIsLowered) {
  BlockPool pool(1024, 64);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(pool.allocate(64));
  pool.free(64);
  pool.free(192);
  pool.free(128);
  EXPECT_EQ(pool.gaps(), (std::vector<Interval>{{64, 256}}));
  EXPECT_EQ(pool.top(), 256);
  pool.lower_top();
  EXPECT_EQ(pool.top(), 64);
  EXPECT_TRUE(pool.gaps().empty());
}

TEST(BlockPool, AFullRangeHasNoRoom) {
  BlockPool pool(256, 64);
  EXPECT_FALSE(pool.allocate(257));
  EXPECT_TRUE(pool.allocate(256));
  EXPECT_FALSE(pool.allocate(1));
  EXPECT_FALSE(BlockPool(0, 64).allocate(1));
}

// A map of all bytes, searched from its start.
class ByteByByte {
 public:
  explicit ByteByByte(int64_t bytes) : taken_(bytes, false) {}

  std::optional<int64_t> allocate(int64_t size) {
    std::optional<int64_t> best;
    int64_t least = 0;
    for (auto begin = taken_.begin(); begin != taken_.end();) {
      begin = std::find(begin, taken_.end(), false);
      const auto end = std::find(begin, taken_.end(), true);
      if (end - begin >= size && (!best || end - begin < least)) {
        best = begin - taken_.begin();
        least = end - begin;
      }
      begin = end;
    }
    if (best) std::fill_n(taken_.begin() + *best, size, true);
    return best;
  }
  void free(int64_t at, int64_t size) { std::fill_n(taken_.begin() + at, size, false); }

 private:
  std::vector<bool> taken_;
};

TEST(BlockPool, IsAsAMapOfAllBytes) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    BlockPool pool(500, 1);
    ByteByByte bytes(500);
    std::map<int64_t, int64_t> blocks;
    for (int step = 0; step < 400; ++step) {
      if (blocks.empty() || random() % 5 < 3) {
        const auto size = static_cast<int64_t>(1 + random() % 60);
        const auto found = pool.allocate(size);
        ASSERT_EQ(found, bytes.allocate(size)) << "step " << step;
        if (found) blocks[*found] = size;
      } else {
        const auto block = std::next(blocks.begin(), random() % blocks.size());
        EXPECT_EQ(pool.free(block->first), block->second);
        bytes.free(block->first, block->second);
        blocks.erase(block);
      }
      int64_t used = 0;
      for (const auto& [at, size] : blocks) used += size;
      ASSERT_EQ(pool.used(), used);
    }
  }
}

// Lets a step run through a pool: tensors are made by their nodes, and freed after their last use.
// Small ones lie elsewhere (src/runtime/kept_memory.cpp): they would keep large gaps apart.
class Step {
 public:
  void run(const Partition& partition) {
    pass(partition.forward, /*is_backward=*/false);
    for (const auto& life : liveness(partition.forward)) forward_storage_.insert(life.storage);
    pass(partition.backward, /*is_backward=*/true);
  }

  int64_t peak() const { return peak_; }
  int64_t top() const { return pool_.top(); }

 private:
  void allocate(const StorageLife& life) {
    if (life.bytes < kLeastBytes) return;
    blocks_[life.storage] = *pool_.allocate(life.bytes);
    peak_ = std::max(peak_, pool_.used());
  }
  void free(StorageId storage) {
    const auto block = blocks_.find(storage);
    if (block == blocks_.end()) return;
    pool_.free(block->second);
    blocks_.erase(block);
  }

  void pass(const Graph& graph, bool is_backward) {
    const auto lives = liveness(graph);
    const auto nodes = static_cast<int32_t>(graph.nodes.size());
    if (is_backward) {
      for (const auto& life : lives) {
        if (life.first >= 0 || forward_storage_.contains(life.storage)) continue;
        tangents_.insert(life.storage);
        allocate(life);
      }
    }
    for (int32_t i = 0; i < nodes; ++i) {
      for (const auto& life : lives) {
        if (life.first == i) allocate(life);
      }
      for (const auto& life : lives) {
        if (tangents_.contains(life.storage)) continue;  // the caller of the backward holds them
        if (life.last == i || (life.first == i && life.last < i)) free(life.storage);
      }
    }
  }

  static constexpr int64_t kLeastBytes = 64 << 10;

  BlockPool pool_{int64_t{1} << 40, 64};
  std::map<StorageId, int64_t> blocks_;
  std::set<StorageId> forward_storage_, tangents_;
  int64_t peak_ = 0;
};

class BlockPoolSteps : public ::testing::TestWithParam<std::string> {};

// What a step needs at least is the largest set of tensors that live at once.
TEST_P(BlockPoolSteps, TakeLittleMoreThanLivesAtOnce) {
  const auto partition = default_partition(exported_joint(GetParam()));
  Step step;
  step.run(partition);
  const auto peak = static_cast<double>(step.peak());
  const auto simulated = static_cast<double>(simulate(partition).peak_bytes);
  EXPECT_LE(peak, simulated);
  EXPECT_GE(peak, 0.85 * simulated);
  EXPECT_LE(static_cast<double>(step.top()), 1.06 * peak);
}

INSTANTIATE_TEST_SUITE_P(Joint, BlockPoolSteps, ::testing::ValuesIn(exported_names()),
                         [](const auto& info) { return info.param; });

}  // namespace block_pool_test
}  // namespace antegrad::testing
