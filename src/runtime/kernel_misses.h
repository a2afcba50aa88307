#pragma once

/// \file
/// Counts the calls of generated kernels in which their nodes ran instead.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace antegrad::runtime {

/// Why a generated kernel does not fit a call.
enum class KernelMiss : uint8_t { memory, threads, bounds };

/// In words, by KernelMiss.
inline constexpr std::array<std::string_view, 3> kKernelMisses = {
    "an input lies in memory otherwise than in the captured call",
    "libtorch has another number of threads than the kernel was made for",
    "an index is out of bounds",
};

/// Thread-safe.
class KernelMisses {
 public:
  void count(KernelMiss miss) {
    counts_[static_cast<size_t>(miss)].fetch_add(1, std::memory_order_relaxed);
  }

  /// Calls by reason, without reasons that never held.
  std::map<std::string, int64_t> counted() const {
    std::map<std::string, int64_t> found;
    for (size_t i = 0; i < counts_.size(); ++i) {
      const int64_t count = counts_[i].load(std::memory_order_relaxed);
      if (count > 0) found.emplace(kKernelMisses[i], count);
    }
    return found;
  }

 private:
  std::array<std::atomic<int64_t>, kKernelMisses.size()> counts_{};
};

}  // namespace antegrad::runtime
