#include "runtime/program_graphs.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "log/log.h"
#include "runtime/graph_obstacle.h"
#include "torch_compat/convert.h"
#include "torch_compat/current_stream.h"
#include "torch_compat/op_observer.h"
#include "torch_compat/stream_capture.h"

namespace antegrad::runtime {
namespace {

c10::Device device_of(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    for (const auto& list : {node.inputs, node.outputs}) {
      for (const auto id : list) {
        if (!graph.is_tensor(id)) continue;
        const auto& device = graph.value(id).meta.device;
        if (device.kind == DeviceKind::cuda) return torch_compat::to_c10_device(device);
      }
    }
  }
  return at::kCUDA;
}

// Tensors whose operators do more than to start kernels on their memory.
constexpr c10::DispatchKeySet kUnusual({
    c10::DispatchKey::Python,
    c10::DispatchKey::PythonTLSSnapshot,
    c10::DispatchKey::Functionalize,
    c10::DispatchKey::FuncTorchBatched,
    c10::DispatchKey::FuncTorchGradWrapper,
    c10::DispatchKey::Conjugate,
    c10::DispatchKey::Negative,
    c10::DispatchKey::ZeroTensor,
});

// The first line, without the trace that libtorch adds.
std::string first_line(const char* text) {
  const std::string all(text);
  return all.substr(0, all.find('\n'));
}

}  // namespace

ProgramGraphs::ProgramGraphs(const Graph& graph, std::shared_ptr<GraphCounts> counts)
    : name_(graph.name),
      counts_(std::move(counts)),
      rules_{.device = device_of(graph)},
      history_(/*may_copy=*/!reads_whole_storage(graph)) {
  for (const auto& output : graph.outputs) {
    rules_.stays.push_back(output.kind == OutputKind::saved);
  }
  if (auto why = graph_obstacle(graph); !why.empty()) {
    refused_ = true;
    counts_->refuse(std::move(why));
  }
}

ProgramGraphs::~ProgramGraphs() {
  while (!kept_.empty()) drop_oldest();
}

void ProgramGraphs::drop_oldest() {
  counts_->released(kept_.front().bytes);
  kept_.erase(kept_.begin());
}

bool ProgramGraphs::is_usual(const std::vector<at::Tensor>& inputs) const {
  const bool watched = torch_compat::is_observed() ||
                       c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python);
  return !watched && std::ranges::all_of(inputs, [&](const at::Tensor& input) {
    if (!input.defined()) return true;
    return input.layout() == at::kStrided && input.has_storage() &&
           !input.key_set().has_any(kUnusual) && !input.is_quantized() &&
           (input.device() == rules_.device || input.is_cpu());
  });
}

// Those of inputs, and behind them the state of libtorch, which has to stay as well.
std::vector<InputPlace> ProgramGraphs::places_of(const std::vector<at::Tensor>& inputs,
                                                 const State& state) const {
  std::vector<InputPlace> places;
  places.reserve(inputs.size() + 3);
  for (const auto& input : inputs) {
    auto& place = places.emplace_back();
    if (!input.defined() || input.device() != rules_.device || input.numel() == 0) continue;
    place = {reinterpret_cast<uint64_t>(input.const_data_ptr()), bytes_within(input)};
  }
  for (const auto part :
       {reinterpret_cast<uint64_t>(state.stream), state.switches.float32, state.switches.others}) {
    places.push_back({part, 0});
  }
  return places;
}

const RecordedProgram* ProgramGraphs::find(const std::vector<at::Tensor>& inputs,
                                           const State& state) {
  const auto found = std::ranges::find_if(
      kept_, [&](const Kept& kept) { return kept.state == state && kept.program->fits(inputs); });
  if (found == kept_.end()) return nullptr;
  std::rotate(found, found + 1, kept_.end());
  return kept_.back().program.get();
}

void ProgramGraphs::refuse(const std::string& why) {
  refused_ = true;
  counts_->refuse(why);
  TORCH_WARN("antegrad: '", name_, "' runs without a CUDA graph: ", why);
}

const RecordedProgram* ProgramGraphs::record(const std::vector<at::Tensor>& inputs,
                                             const State& state, std::vector<bool> copied,
                                             const RecordedProgram::Nodes& nodes) {
  if (kept_.size() == kMostKept) drop_oldest();
  auto rules = rules_;
  rules.copied = std::move(copied);
  try {
    auto program = std::make_unique<RecordedProgram>(inputs, rules, nodes);
    const auto bytes = program->bytes();
    kept_.push_back({state, std::move(program), bytes});
    counts_->recorded(bytes);
    log(Log::kernels, [&] {
      return "'" + name_ + "' is a CUDA graph of " + std::to_string(kept_.back().program->size()) +
             " kernels, " + std::to_string(bytes) + " bytes";
    });
    return kept_.back().program.get();
  } catch (const c10::OutOfMemoryError&) {
    counts_->ran(NodeByNode::memory);  // there may be some later
  } catch (const std::exception& error) {
    refuse("it could not be recorded: " + first_line(error.what()));
  } catch (...) {
    refuse("it could not be recorded");
  }
  return nullptr;
}

std::optional<std::vector<at::Tensor>> ProgramGraphs::run(std::vector<at::Tensor>& inputs,
                                                          const RecordedProgram::Nodes& nodes) {
  const auto without = [&](NodeByNode why) {
    counts_->ran(why);
    return std::nullopt;
  };
  if (refused_) return std::nullopt;
  if (torch_compat::in_stream_capture(rules_.device)) return std::nullopt;  // the user's graph
  if (!is_usual(inputs)) return without(NodeByNode::unusual);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return without(NodeByNode::busy);
  const c10::DeviceGuard on(rules_.device);
  const State state{torch_compat::current_stream(rules_.device),
                    torch_compat::KernelSwitches::now()};
  const auto* program = find(inputs, state);
  if (program == nullptr) {
    auto copied = history_.next(places_of(inputs, state));
    if (!copied) return without(kept_.empty() ? NodeByNode::first : NodeByNode::moved);
    program = record(inputs, state, std::move(*copied), nodes);
    if (program == nullptr) return std::nullopt;
  }
  if (program->is_held()) return without(NodeByNode::held);
  try {
    auto outputs = program->run(inputs);
    inputs.clear();
    counts_->replayed();
    return outputs;
  } catch (const c10::OutOfMemoryError&) {
    return without(NodeByNode::memory);
  }
}

}  // namespace antegrad::runtime
