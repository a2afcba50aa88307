#include "runtime/kept_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <antegrad/memory.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "memory/block_pool.h"
#include "runtime/fork_gate.h"

namespace antegrad::runtime {
namespace {

// Smaller blocks come from malloc(), which keeps them.
constexpr size_t kLeastBytes = size_t{64} << 10;
// As libtorch's allocator.
constexpr int64_t kAlignment = 64;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kServes = false;  // blocks that are used again would hide errors
#else
constexpr bool kServes = true;
#endif

// Addresses for blocks, whose pages the system provides when they are written; null if it gives
// none. As many as there is memory.
struct Range {
  std::byte* begin = nullptr;
  int64_t bytes = 0;
};

Range reserve() {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t bytes = sysconf(_SC_PHYS_PAGES) * page;
  void* range = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return {};
#ifdef MADV_HUGEPAGE
  madvise(range, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  return {static_cast<std::byte*>(range), bytes};
}

class Pool {
 public:
  static Pool& of_process() {
    static auto* const pool = new Pool();  // outlives all blocks
    return *pool;
  }

  void* allocate(size_t bytes) {
    const ForkSafeLock lock(mutex_);
    const auto offset = blocks_.allocate(static_cast<int64_t>(bytes));
    return offset ? range_.begin + *offset : nullptr;
  }

  bool has(const void* block) const {
    const auto* address = static_cast<const std::byte*>(block);
    return address >= range_.begin && address < range_.begin + range_.bytes;
  }

  void free(void* block) {
    const ForkSafeLock lock(mutex_);
    blocks_.free(static_cast<std::byte*>(block) - range_.begin);
  }

  // What is free. Whether there was any.
  bool give_back() {
    const ForkSafeLock lock(mutex_);
    const int64_t page = sysconf(_SC_PAGESIZE);
    bool any = false;
    for (const auto& gap : blocks_.gaps()) {
      const int64_t begin = (gap.begin + page - 1) & -page, end = gap.end & -page;
      if (begin >= end) continue;
      madvise(range_.begin + begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
      any = true;
    }
    blocks_.lower_top();
    return any;
  }

  MemoryKept kept() {
    const ForkSafeLock lock(mutex_);
    return {.used_bytes = blocks_.used(), .kept_bytes = resident()};
  }

 private:
  // Bytes of pages in memory.
  int64_t resident() const {
    const int64_t page = sysconf(_SC_PAGESIZE);
    std::vector<unsigned char> pages(static_cast<size_t>((blocks_.top() + page - 1) / page));
    if (pages.empty()) return 0;
    if (mincore(range_.begin, static_cast<size_t>(blocks_.top()), pages.data()) != 0) {
      return blocks_.top();
    }
    return page * std::ranges::count_if(pages, [](unsigned char state) { return state & 1; });
  }

  const Range range_ = reserve();
  std::mutex mutex_;
  BlockPool blocks_{range_.bytes, kAlignment};
};

std::atomic<bool> has_pool = false;
thread_local bool serves = false;

}  // namespace

KeepsMemory::KeepsMemory(KeptMemory policy)
    : policy_(policy), outermost_(kServes && policy != KeptMemory::free && !serves) {
  if (outermost_) serves = true;
}

KeepsMemory::~KeepsMemory() {
  if (!outermost_) return;
  serves = false;
  if (policy_ == KeptMemory::trim) release_kept();
}

void* allocate_kept(size_t bytes) {
  if (!serves || bytes < kLeastBytes) return nullptr;
  has_pool = true;
  return Pool::of_process().allocate(bytes);
}

bool is_kept(const void* block) { return has_pool && Pool::of_process().has(block); }

void free_kept(void* block) { Pool::of_process().free(block); }

bool release_kept() { return has_pool && Pool::of_process().give_back(); }

}  // namespace antegrad::runtime

namespace antegrad {

MemoryKept kept_memory() {
  return runtime::has_pool ? runtime::Pool::of_process().kept() : MemoryKept();
}

void release_kept_memory() { runtime::release_kept(); }

}  // namespace antegrad
