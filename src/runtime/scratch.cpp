#include "runtime/scratch.h"

#include <algorithm>
#include <optional>

#include "runtime/kernel_trials.h"
#include "torch_compat/allocation_watch.h"

namespace antegrad::runtime {
namespace {

// Rows or columns lie one behind the other, as BLAS wants them.
bool is_blas_matrix(const TensorMeta& meta) {
  if (meta.sizes.size() < 2) return true;
  const auto n = meta.sizes.size();
  const auto rows = meta.sizes[n - 2].constant(), columns = meta.sizes[n - 1].constant();
  const auto down = meta.strides[n - 2].constant(), across = meta.strides[n - 1].constant();
  return (across == 1 && down >= std::max<int64_t>(1, columns)) ||
         (down == 1 && across >= std::max<int64_t>(1, rows));
}

// Elementwise loops and matrix products on the CPU take no memory of their own where no argument
// has to be converted first; in low precision products go through other libraries.
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

int64_t scratch_of(const Program& program, const std::vector<at::Tensor>& inputs,
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
  // Workspaces that a library keeps from its first call on are not of this call.
  const auto kept_by_library = std::max<int64_t>(0, stays - returned);
  return std::max<int64_t>(0, watch.peak_bytes() - returned - kept_by_library);
}

}  // namespace

std::vector<int64_t> measure_scratch(const Graph& graph, const ops::AttrTables& tables) {
  static auto* trials = new KernelTrials("scratch memory", scratch_of);
  auto scratch = trials->of(graph, tables, needs_none);
  for (auto& bytes : scratch) bytes = std::max<int64_t>(bytes, 0);
  return scratch;
}

}  // namespace antegrad::runtime
