#include "measure/kernel_trials.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

#include "graph/hash.h"
#include "graph/text.h"
#include "log/log.h"
#include "ops/op_table.h"
#include "ops/trial_data.h"
#include "runtime/generator_states.h"
#include "torch_compat/convert.h"
#include "torch_compat/stream_capture.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::measuring {
namespace {

bool all_static(const TensorMeta& meta) {
  const auto constant = [](const IntExpr& e) { return e.is_constant(); };
  return std::all_of(meta.sizes.begin(), meta.sizes.end(), constant) &&
         std::all_of(meta.strides.begin(), meta.strides.end(), constant);
}

c10::Device device_of(const Graph& graph, const Node& node) {
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const auto id : *list) {
      if (!graph.is_tensor(id)) continue;
      const auto& meta = graph.value(id).meta;
      if (meta.device.kind == DeviceKind::cuda) return torch_compat::to_c10_device(meta.device);
    }
  }
  return c10::kCPU;
}

// An index of zero into an empty tensor makes a CUDA device unusable for the process.
bool is_empty(const TensorMeta& meta) {
  return std::any_of(meta.sizes.begin(), meta.sizes.end(),
                     [](const IntExpr& size) { return size == IntExpr(0); });
}

bool may_run(const Graph& graph, const Node& node) {
  if (node.op.traits().has_side_effects() || node.op.traits().collective) return false;
  const auto& entry = ops::entry_of(node.op);
  const auto device = device_of(graph, node);
  if (ops::trial_data_of(entry, device) == TrialData::unknown) return false;
  // Its result depends on data, or it is not an operator of libtorch.
  if (entry.custom || entry.is_twin || entry.policy == ops::Policy::dynamic_outputs) return false;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const auto id : *list) {
      if (id == kNoValue) continue;
      const auto& value = graph.value(id);
      if (value.kind != ValueKind::tensor && value.kind != ValueKind::token) return false;
      if (value.kind != ValueKind::tensor) continue;
      if (!all_static(value.meta) || (!device.is_cpu() && is_empty(value.meta))) return false;
    }
  }
  return true;
}

// A graph with this node alone, its inputs as arguments.
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
    if (!token) alone.outputs.emplace_back().value = id;
  }
  alone.nodes.push_back(std::move(copy));
  return alone;
}

std::vector<at::Tensor> inputs_for(const Graph& alone, TrialData data) {
  std::vector<at::Tensor> inputs;
  for (const auto& input : alone.inputs) {
    if (!alone.is_tensor(input.value)) {
      inputs.emplace_back();
      continue;
    }
    const auto meta = torch_compat::TensorMetadata::of(alone.value(input.value).meta);
    auto made = at::empty_strided(meta.sizes, meta.strides, meta.options());
    made.fill_(ops::trial_fill(data, meta.dtype));
    ops::finish_trial(data, made);
    inputs.push_back(std::move(made));
  }
  return inputs;
}

// A kernel that runs now would be recorded into the user's CUDA graph.
bool is_captured(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return torch_compat::in_stream_capture(device_of(graph, node));
  });
}

}  // namespace

int64_t KernelTrials::look(const Graph& alone, const ops::AttrTables& tables,
                           const std::string& operator_name) {
  const auto call = to_string(structural_hash(alone)) + "/" + std::to_string(at::get_num_threads());
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = found_.find(call); it != found_.end()) return it->second;
  }
  int64_t number = -1;
  try {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::DisableRecordFunctionGuard unseen;
    const auto& node = alone.nodes.front();
    const auto device = device_of(alone, node);
    const auto data = ops::trial_data_of(ops::entry_of(node.op), device);
    number = trial_(runtime::Program(alone, tables), inputs_for(alone, data), device);
  } catch (const std::exception& error) {
    log(Log::memory,
        [&] { return name_ + " of " + operator_name + " is not known: " + error.what(); });
  }
  const std::lock_guard lock(mutex_);
  found_.emplace(call, number);
  return number;
}

std::vector<int64_t> KernelTrials::of(const Graph& graph, const ops::AttrTables& tables,
                                      bool (*skip)(const Graph& graph, const Node& node)) {
  std::vector<int64_t> numbers(next_node_id(graph), -1);
  if (is_captured(graph)) return numbers;
  const runtime::GeneratorStates states(runtime::generators_of(graph, tables));
  for (const auto& node : graph.nodes) {
    if (skip(graph, node) || !may_run(graph, node)) continue;
    numbers[node.id] = look(single(graph, node), tables, node.op.name());
  }
  states.restore();
  return numbers;
}

}  // namespace antegrad::measuring
