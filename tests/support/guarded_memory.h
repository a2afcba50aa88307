#pragma once

/// \file
/// Memory that notices who reads or writes outside of it: its first or last byte borders on a page
/// that cannot be touched, and so do parts of it that lie far apart.

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <antegrad/error.h>

namespace antegrad::testing {

/// Whether this program is instrumented by AddressSanitizer.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

/// Bytes [low, high) around an address. Only pages that were opened take memory, so it may be much
/// larger than the machine's.
class GuardedMemory {
 public:
  /// Which end borders on a guard is `at_end`. Whole pages border on guards at both.
  GuardedMemory(int64_t low, int64_t high, bool at_end) {
    const int64_t bytes = high - low;
    const int64_t room = (bytes + kPage - 1) / kPage * kPage;
    size_ = static_cast<size_t>(room + 2 * kPage);
    void* memory =
        mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    AG_CHECK(memory != MAP_FAILED, "room for memory that is hardly used");
    memory_ = static_cast<char*>(memory);
    base_ = memory_ + kPage + (at_end ? room - bytes : 0) - low;
  }
  ~GuardedMemory() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }
  GuardedMemory(GuardedMemory&& other) noexcept { *this = std::move(other); }
  GuardedMemory& operator=(GuardedMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    std::swap(base_, other.base_);
    std::swap(open_, other.open_);
    std::swap(last_opened_, other.last_opened_);
    return *this;
  }

  /// The address of byte 0, which need not be within.
  char* base() const { return base_; }
  bool covers(const char* address) const { return address >= memory_ && address < memory_ + size_; }

  /// Lets bytes [begin, end) be used, and what else lies in their pages. It is filled with a
  /// pattern, which shows writes.
  void open(int64_t begin, int64_t end) {
    if (begin >= end) return;
    for (int64_t page = page_of(begin); page <= page_of(end - 1); ++page) {
      if (page == last_opened_ || !open_.insert(last_opened_ = page).second) continue;
      char* at = memory_ + page * kPage;
      AG_CHECK(mprotect(at, kPage, PROT_READ | PROT_WRITE) == 0, "a page of memory");
      std::memset(at, 0x5a, kPage);
    }
  }

  /// The pages that are open, as bytes [begin, end).
  std::vector<std::pair<int64_t, int64_t>> open_parts() const {
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (const int64_t page : open_) {
      const int64_t begin = memory_ + page * kPage - base_;
      parts.emplace_back(begin, begin + kPage);
    }
    return parts;
  }

 private:
  static constexpr int64_t kPage = 4096;

  int64_t page_of(int64_t byte) const { return (base_ + byte - memory_) / kPage; }

  char* memory_ = nullptr;
  size_t size_ = 0;
  char* base_ = nullptr;
  std::set<int64_t> open_;
  int64_t last_opened_ = -1;
};

namespace detail {
inline sigjmp_buf after_fault;
inline volatile bool faulted = false;
inline const char* volatile fault_address = nullptr;

inline void note_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  faulted = true;
  fault_address = static_cast<const char*>(info->si_addr);
  siglongjmp(after_fault, 1);
}
}  // namespace detail

/// The address that run() touched although it must not. Not for several threads. What run() holds
/// when it faults is lost.
template <class Run>
std::optional<const char*> fault_of(const Run& run) {
  struct sigaction action = {};
  struct sigaction before[2];
  action.sa_sigaction = detail::note_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before[0]);
  sigaction(SIGBUS, &action, &before[1]);
  detail::faulted = false;
  if (sigsetjmp(detail::after_fault, 1) == 0) run();
  sigaction(SIGSEGV, &before[0], nullptr);
  sigaction(SIGBUS, &before[1], nullptr);
  if (!detail::faulted) return std::nullopt;
  return detail::fault_address;
}

}  // namespace antegrad::testing
