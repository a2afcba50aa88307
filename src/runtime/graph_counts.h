#pragma once

/// \file
/// Counts what becomes of calls that CUDA graphs may serve.

#include <antegrad/report.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace antegrad::runtime {

/// Why a call that a graph may serve runs node by node.
enum class NodeByNode : uint8_t { first, moved, held, busy, unusual, hooks, memory };

/// In words, by NodeByNode.
inline constexpr std::array<std::string_view, 7> kNodeByNode = {
    "no graph is recorded before inputs have stayed in place for two calls",
    "an input, the stream, or a switch of libtorch is another one than the graph's",
    "tensors that an earlier call saved in the graph's memory are still held",
    "another thread is using the graph",
    "something watches the operators, or an input is no plain tensor",
    "hooks take what is saved",
    "there was no memory for a graph or its results",
};

/// Of one or more programs. Thread-safe.
class GraphCounts {
 public:
  void recorded(int64_t bytes) {
    recorded_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void released(int64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  void replayed() { replays_.fetch_add(1, std::memory_order_relaxed); }
  void ran(NodeByNode why) {
    node_by_node_[static_cast<size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }
  void refuse(std::string why) {
    const std::lock_guard lock(mutex_);
    refused_ = std::move(why);
  }

  GpuGraphReport report(std::string phase) const {
    GpuGraphReport report{.phase = std::move(phase),
                          .recorded = recorded_.load(std::memory_order_relaxed),
                          .replays = replays_.load(std::memory_order_relaxed),
                          .bytes = bytes_.load(std::memory_order_relaxed)};
    for (size_t i = 0; i < kNodeByNode.size(); ++i) {
      const int64_t count = node_by_node_[i].load(std::memory_order_relaxed);
      if (count > 0) report.node_by_node.emplace(kNodeByNode[i], count);
    }
    const std::lock_guard lock(mutex_);
    report.refused = refused_;
    return report;
  }

 private:
  std::atomic<int64_t> recorded_{0}, replays_{0}, bytes_{0};
  std::array<std::atomic<int64_t>, kNodeByNode.size()> node_by_node_{};
  mutable std::mutex mutex_;
  std::string refused_;
};

}  // namespace antegrad::runtime
