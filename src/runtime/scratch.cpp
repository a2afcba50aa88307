#include "runtime/scratch.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "graph/hash.h"
#include "graph/text.h"
#include "log/log.h"
#include "ops/op_table.h"
#include "runtime/generator_states.h"
#include "runtime/program.h"
#include "torch_compat/allocation_watch.h"
#include "torch_compat/convert.h"
#include "torch_compat/stream_capture.h"

namespace antegrad::runtime {
namespace {

bool is_tensor(const Graph& graph, ValueId id) {
  return id != kNoValue && graph.value(id).kind == ValueKind::tensor;
}

bool all_static(const TensorMeta& meta) {
  const auto constant = [](const IntExpr& e) { return e.is_constant(); };
  return std::all_of(meta.sizes.begin(), meta.sizes.end(), constant) &&
         std::all_of(meta.strides.begin(), meta.strides.end(), constant);
}

// Rows or columns lie one behind the other, as BLAS wants them.
bool is_blas_matrix(const TensorMeta& meta) {
  if (meta.sizes.size() < 2) return true;
  const auto n = meta.sizes.size();
  const auto rows = meta.sizes[n - 2].constant(), columns = meta.sizes[n - 1].constant();
  const auto down = meta.strides[n - 2].constant(), across = meta.strides[n - 1].constant();
  return (across == 1 && down >= std::max<int64_t>(1, columns)) ||
         (down == 1 && across >= std::max<int64_t>(1, rows));
}

// Elementwise loops and matrix products on the CPU take no memory of their own where no argument has to be converted
// first; in low precision products go through other libraries.
bool needs_none(const Graph& graph, const Node& node) {
  const auto& traits = node.op.traits();
  if (traits.view) return true;
  static const std::vector<std::string> products = {"aten::mm", "aten::addmm", "aten::bmm",
                                                    "aten::baddbmm"};
  const auto& name = node.op.info().base_name;
  const bool product = std::find(products.begin(), products.end(), name) != products.end();
  if (traits.random || !(traits.pointwise || product)) return false;
  std::optional<DType> dtype;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const auto id : *list) {
      if (!is_tensor(graph, id)) continue;
      const auto& meta = graph.value(id).meta;
      if (meta.device.kind != DeviceKind::cpu) return false;
      if (dtype && *dtype != meta.dtype) return false;
      dtype = meta.dtype;
      if (product && !is_blas_matrix(meta)) return false;
    }
  }
  return dtype && (!product || *dtype == DType::f32 || *dtype == DType::f64);
}

bool may_run(const Graph& graph, const Node& node) {
  const auto& traits = node.op.traits();
  if (traits.effect || traits.collective || traits.mutates) return false;
  const auto& entry = ops::entry_of(node.op);
  // What it returns depends on data, or it is not libtorch's.
  if (entry.custom || entry.is_twin || entry.policy == ops::Policy::dynamic_outputs) return false;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const auto id : *list) {
      if (id == kNoValue) continue;
      const auto& value = graph.value(id);
      if (value.kind != ValueKind::tensor && value.kind != ValueKind::token) return false;
      if (value.kind == ValueKind::tensor && !all_static(value.meta)) return false;
    }
  }
  return true;
}

// The node alone, its inputs as arguments.
Graph single(const Graph& graph, const Node& node) {
  Graph alone;
  alone.name = "scratch";
  alone.generators = graph.generators;
  alone.opaque_names = graph.opaque_names;
  Node copy = node;
  copy.id = 0;
  copy.block = -1;
  copy.phase = Phase::forward;
  copy.recompute = Recompute::as_decided;
  std::map<ValueId, ValueId> there;
  const auto add_input = [&](ValueId id) {
    if (const auto it = there.find(id); it != there.end()) return it->second;
    Input input;
    if (graph.value(id).kind == ValueKind::token) {
      input.value = alone.add_token();
      input.kind = InputKind::generator_token;
      input.index = static_cast<int32_t>(alone.inputs.size());
    } else {
      auto meta = graph.value(id).meta;
      meta.offset = 0;
      input.value = alone.add_tensor(std::move(meta));
    }
    alone.inputs.push_back(input);
    return there[id] = input.value;
  };
  for (auto& id : copy.inputs) id = add_input(id);
  for (auto& id : copy.outputs) {
    if (id == kNoValue) continue;
    const bool token = graph.value(id).kind == ValueKind::token;
    id = token ? alone.add_token() : alone.add_tensor(graph.value(id).meta);
    if (token) continue;
    Output output;
    output.value = id;
    alone.outputs.push_back(output);
  }
  alone.nodes.push_back(std::move(copy));
  return alone;
}

std::vector<at::Tensor> zeros_for(const Graph& alone) {
  std::vector<at::Tensor> inputs;
  for (const auto& input : alone.inputs) {
    if (!is_tensor(alone, input.value)) {
      inputs.emplace_back();
      continue;
    }
    const auto& meta = alone.value(input.value).meta;
    const auto options = at::TensorOptions()
                             .dtype(torch_compat::to_scalar_type(meta.dtype))
                             .device(torch_compat::to_c10_device(meta.device));
    inputs.push_back(at::empty_strided(torch_compat::to_ints(meta.sizes),
                                       torch_compat::to_ints(meta.strides), options)
                         .zero_());
  }
  return inputs;
}

int64_t measure(const Graph& alone, const ops::AttrTables& tables, c10::DeviceType device) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const Program program(alone, tables);
  auto inputs = zeros_for(alone);
  const auto kept = inputs;  // so that none dies inside
  torch_compat::AllocationWatch watch(device);
  int64_t returned = 0;
  int64_t stays = 0;
  {
    const auto outputs = program.run(std::move(inputs));
    for (const auto& output : outputs) {
      if (output.defined() && output.device().type() == device) {
        returned += static_cast<int64_t>(output.storage().nbytes());
      }
    }
    stays = watch.live_bytes();
  }
  // Workspaces that a library keeps from its first call on are not of this call.
  const auto kept_by_library = std::max<int64_t>(0, stays - returned);
  return std::max<int64_t>(0, watch.peak_bytes() - returned - kept_by_library);
}

// What runs now would go into the user's CUDA graph.
bool is_captured(const Graph& graph) {
  for (const auto& value : graph.values) {
    if (value.kind != ValueKind::tensor || value.meta.device.kind != DeviceKind::cuda) continue;
    const auto device = torch_compat::to_c10_device(value.meta.device);
    return torch_compat::in_stream_capture(at::globalContext().defaultGenerator(device));
  }
  return false;
}

class Known {
 public:
  std::optional<int64_t> find(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto it = bytes_.find(key);
    return it == bytes_.end() ? std::nullopt : std::optional(it->second);
  }
  void add(const std::string& key, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_.emplace(key, bytes);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> bytes_;
};

Known& known() {
  static auto* instance = new Known();
  return *instance;
}

}  // namespace

std::vector<int64_t> measure_scratch(const Graph& graph, const ops::AttrTables& tables) {
  int32_t last = -1;
  for (const auto& node : graph.nodes) last = std::max(last, node.id);
  std::vector<int64_t> scratch(static_cast<size_t>(last + 1), 0);
  if (is_captured(graph)) return scratch;
  const GeneratorStates states(generators_of(graph, tables));
  for (const auto& node : graph.nodes) {
    if (needs_none(graph, node) || !may_run(graph, node)) continue;
    const auto alone = single(graph, node);
    auto device = c10::DeviceType::CPU;
    for (const auto& value : alone.values) {
      if (value.kind == ValueKind::tensor && value.meta.device.kind == DeviceKind::cuda) {
        device = c10::DeviceType::CUDA;
      }
    }
    const auto key =
        to_string(structural_hash(alone)) + "/" + std::to_string(at::get_num_threads());
    auto bytes = known().find(key);
    if (!bytes) {
      try {
        bytes = measure(alone, tables, device);
      } catch (const std::exception& error) {
        log(Artifact::memory,
            [&] { return "scratch of " + node.op.name() + " is not known: " + error.what(); });
        bytes = 0;
      }
      known().add(key, *bytes);
    }
    scratch[static_cast<size_t>(node.id)] = *bytes;
  }
  states.restore();
  return scratch;
}

}  // namespace antegrad::runtime
