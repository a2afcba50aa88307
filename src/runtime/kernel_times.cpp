#include "runtime/kernel_times.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "runtime/kernel_trials.h"

namespace antegrad::runtime {
namespace {

constexpr double kPicoseconds = 1e-12;
/// So long a batch of calls should take, and so many calls it has at most.
constexpr double kBatchSeconds = 200e-6;
constexpr double kMostCalls = 20;

bool is_view(const Graph& /*graph*/, const Node& node) { return node.op.traits().view; }

/// The median of three batches after a first call, which may set things up.
int64_t picoseconds_of(const Program& program, const std::vector<at::Tensor>& inputs,
                       c10::Device device) {
  const auto seconds = [&](int calls) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) program.run(inputs);
    if (!device.is_cpu()) {
      const c10::impl::VirtualGuardImpl guard(device.type());
      guard.synchronizeDevice(guard.getDevice().index());
    }
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(end - start).count();
  };
  seconds(1);
  const int calls =
      static_cast<int>(std::clamp(kBatchSeconds / std::max(seconds(1), 1e-9), 1.0, kMostCalls));
  std::array<double, 3> batches{};
  for (auto& batch : batches) batch = seconds(calls) / calls;
  std::sort(batches.begin(), batches.end());
  return static_cast<int64_t>(batches[1] / kPicoseconds);
}

}  // namespace

std::vector<double> measure_seconds(const Graph& graph, const ops::AttrTables& tables) {
  static auto* trials = new KernelTrials("the time", picoseconds_of);
  std::vector<double> seconds;
  for (const auto picoseconds : trials->of(graph, tables, is_view)) {
    seconds.push_back(picoseconds < 0 ? -1 : static_cast<double>(picoseconds) * kPicoseconds);
  }
  for (const auto& node : graph.nodes) {
    if (is_view(graph, node)) seconds[node.id] = 0;
  }
  return seconds;
}

}  // namespace antegrad::runtime
