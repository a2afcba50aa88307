#include "measure/measure.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "measure/kernel_trials.h"
#include "torch_compat/allocation_watch.h"

namespace antegrad::measuring {
namespace {

// Rows or columns are contiguous, as BLAS requires.
bool is_blas_matrix(const TensorMeta& meta) {
  if (meta.sizes.size() < 2) return true;
  const auto n = meta.sizes.size();
  const auto rows = meta.sizes[n - 2].constant(), columns = meta.sizes[n - 1].constant();
  const auto down = meta.strides[n - 2].constant(), across = meta.strides[n - 1].constant();
  return (across == 1 && down >= std::max<int64_t>(1, columns)) ||
         (down == 1 && across >= std::max<int64_t>(1, rows));
}

// On the CPU, elementwise loops and matrix products allocate no scratch memory if no argument needs
// conversion. Low-precision products use other libraries.
bool needs_none(const Graph& graph, const Node& node) {
  const auto& traits = node.op.traits();
  if (traits.view) return true;
  const bool product = traits.blas;
  if (traits.random || !(traits.pointwise || product)) return false;
  std::optional<DType> dtype;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const auto id : *list) {
      if (!graph.is_tensor(id)) continue;
      const auto& meta = graph.value(id).meta;
      if (meta.device.kind != DeviceKind::cpu) return false;
      if (dtype && *dtype != meta.dtype) return false;
      dtype = meta.dtype;
      if (product && !is_blas_matrix(meta)) return false;
    }
  }
  return dtype && (!product || *dtype == DType::f32 || *dtype == DType::f64);
}

int64_t scratch_of(const runtime::Program& program, const std::vector<at::Tensor>& inputs,
                   c10::Device device) {
  torch_compat::AllocationWatch watch(device.type());
  int64_t returned = 0;
  int64_t stays = 0;
  {
    const auto outputs = program.run(inputs);
    for (const auto& output : outputs) {
      if (output.defined() && output.device().type() == device.type()) {
        returned += static_cast<int64_t>(output.storage().nbytes());
      }
    }
    stays = watch.live_bytes();
  }
  // Workspaces that a library keeps from its first call on do not count.
  const auto kept_by_library = std::max<int64_t>(0, stays - returned);
  return std::max<int64_t>(0, watch.peak_bytes() - returned - kept_by_library);
}

constexpr double kPicoseconds = 1e-12;
/// The target duration of a batch of calls, and the largest number of calls in it.
constexpr double kBatchSeconds = 200e-6;
constexpr double kMostCalls = 20;

bool is_view(const Graph& /*graph*/, const Node& node) { return node.op.traits().view; }

/// The median of three batches, after one call to warm up.
int64_t picoseconds_of(const runtime::Program& program, const std::vector<at::Tensor>& inputs,
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

Measurements measure(const Graph& graph, const ops::AttrTables& tables, Needs needs) {
  static auto* scratch = new KernelTrials("scratch memory", scratch_of);
  static auto* times = new KernelTrials("the time", picoseconds_of);
  Measurements measured;
  if (needs.scratch) measured.scratch = scratch->of(graph, tables, needs_none);
  for (auto& bytes : measured.scratch) bytes = std::max<int64_t>(bytes, 0);
  if (!needs.seconds) return measured;
  for (const auto picoseconds : times->of(graph, tables, is_view)) {
    measured.seconds.push_back(picoseconds < 0 ? -1
                                               : static_cast<double>(picoseconds) * kPicoseconds);
  }
  for (const auto& node : graph.nodes) {
    if (is_view(graph, node)) measured.seconds[node.id] = 0;
  }
  return measured;
}

}  // namespace antegrad::measuring
