#include "compile/hooks.h"

#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "capture/doubles.h"
#include "graph/text.h"
#include "partition/budget/planner.h"
#include "passes/joint_passes.h"
#include "torch_compat/autocast.h"

namespace antegrad::compiler {
namespace {

// Storages of what the caller holds after the call.
std::unordered_set<StorageId> handed_out_by(const Graph& forward) {
  std::unordered_set<StorageId> storages;
  for (const auto& output : forward.outputs) {
    if (of_forward(output.kind) && output.value != kNoValue) {
      storages.insert(forward.value(output.value).storage);
    }
  }
  return storages;
}

std::string meta_text(const TensorMeta& meta) {
  Value value;
  value.meta = meta;
  return value_text(value);
}

bool is_static(const Input& input) { return input.source.kind != Source::Kind::argument; }

// Why the filter leaves a saved tensor as it is; "" where the hooks stand for it.
class Filter {
 public:
  Filter(const Graph& forward, HookFilter mode)
      : forward_(forward), mode_(mode), handed_out_(handed_out_by(forward)) {
    for (const auto& input : forward.inputs) {
      if (input.kind != InputKind::primal) continue;
      primals_.insert(forward.value(input.value).storage);
      if (is_static(input)) static_.insert(forward.value(input.value).storage);
    }
  }

  std::string why_not(ValueId id) const {
    const auto storage = forward_.value(id).storage;
    if (!can_be_hooked(forward_, id)) return "it does not fill its memory";
    if (mode_ == HookFilter::all) return "";
    if (static_.count(storage)) return "it is a parameter, a buffer or held by the callable";
    if (mode_ == HookFilter::no_static) return "";
    if (primals_.count(storage)) return "it is an argument";
    return handed_out_.count(storage) ? "it is a result" : "";
  }

 private:
  const Graph& forward_;
  const HookFilter mode_;
  std::unordered_set<StorageId> handed_out_;
  std::unordered_set<StorageId> primals_, static_;
};

// One hook as a graph.
struct Part {
  Graph graph;
  std::vector<HostValue> host;  // what it returns beside tensors
};

[[noreturn]] void refuse(const detail::HookPair& hooks, const char* what, const std::string& found,
                         const std::string& remedy) {
  throw CaptureError("", {fmt::format("{} of '{}' that computes with tensors from the one that is "
                                      "saved alone",
                                      what, hooks.options.name),
                          found, remedy});
}

using Body = std::function<Leaves(const std::vector<at::Tensor>&)>;

Part capture_part(const detail::HookPair& hooks, const char* what,
                  const std::vector<TensorMeta>& inputs, const Body& body) {
  Part part;
  capture::Request request;
  request.name = hooks.options.name + "." + what;
  for (const auto& meta : inputs) request.arguments.push_back(capture::double_like(meta));
  request.variation.has_data = false;
  request.body = [&](const std::vector<at::Tensor>& tensors) {
    const at::NoGradGuard no_grad;
    auto leaves = body(tensors);
    part.host = std::move(leaves.host);
    return std::move(leaves.tensors);
  };
  // As in eager, where hooks run below autocast.
  const torch_compat::AutocastScope no_autocast{torch_compat::Autocast()};
  auto captured = capture::capture(request);
  const auto& joint = captured.joint;
  const std::string eagerly = "or run it eagerly: HookOptions{.inlineable = false}";
  if (captured.primals.size() > inputs.size()) {
    refuse(hooks, what, "one that reads a tensor it holds",
           "let pack return the tensor with the packed one, " + eagerly);
  }
  if (!captured.questions.empty()) {
    refuse(hooks, what, "one that asks for data", "compute with tensors, " + eagerly);
  }
  if (!joint.generators.empty() || !joint.opaque_names.empty()) {
    refuse(hooks, what, "one that draws random numbers, or takes an object of the runtime",
           eagerly.substr(3));
  }
  for (const auto& output : joint.outputs) {
    const bool plain = output.kind == OutputKind::result && output.value != kNoValue;
    if (output.kind == OutputKind::base || plain) continue;
    refuse(hooks, what, "one that writes to its argument, has effects, or returns no tensor",
           eagerly.substr(3));
  }
  part.graph = run_joint_passes(std::move(captured.joint), {});
  std::erase_if(part.graph.outputs,
                [](const Output& output) { return output.kind != OutputKind::result; });
  return part;
}

// The graph's inputs in the order of `count` arguments, each an argument of its own.
void order_inputs(Part& part, size_t count) {
  auto& inputs = part.graph.inputs;
  std::sort(inputs.begin(), inputs.end(),
            [](const Input& a, const Input& b) { return a.source.index < b.source.index; });
  AG_CHECK(inputs.size() == count, "one input for each argument of a hook");
}

void require_same(const detail::HookPair& hooks, const TensorMeta& saved, const Part& unpack) {
  const auto& outputs = unpack.graph.outputs;
  const auto* found =
      outputs.size() == 1 ? &unpack.graph.value(outputs.front().value).meta : nullptr;
  if (found != nullptr && found->sizes == saved.sizes && found->dtype == saved.dtype &&
      found->device == saved.device) {
    return;
  }
  throw HookError(
      ErrorText{fmt::format("unpack of '{}' to give back {}", hooks.options.name, meta_text(saved)),
                found == nullptr ? std::to_string(outputs.size()) + " tensors" : meta_text(*found),
                "return a tensor of the sizes, dtype and device of the one that was packed"});
}

HookedTensor capture_pair(const detail::HookPair& hooks, const TensorMeta& meta) {
  auto pack = capture_part(hooks, "pack", {meta}, [&](const std::vector<at::Tensor>& tensors) {
    return hooks.pack(tensors.front());
  });
  order_inputs(pack, 1);
  std::vector<TensorMeta> packed;
  for (const auto& output : pack.graph.outputs) {
    packed.push_back(pack.graph.value(output.value).meta);
    packed.back().offset = 0;
  }
  auto unpack = capture_part(hooks, "unpack", packed, [&](const std::vector<at::Tensor>& tensors) {
    return Leaves{{hooks.unpack(Leaves{tensors, pack.host})}, {}};
  });
  order_inputs(unpack, packed.size());
  require_same(hooks, meta, unpack);
  return {kNoValue, std::move(pack.graph), std::move(unpack.graph)};
}

bool change_nothing(const HookedTensor& tensor) {
  const auto hands_through = [](const Graph& part) {
    return part.outputs.size() == 1 && part.outputs.front().value == part.inputs.front().value;
  };
  return hands_through(tensor.pack) && hands_through(tensor.unpack);
}

Hooked none_hooked(int32_t first_node, ProgramReport& report) {
  report.hooked.clear();
  report.not_hooked.clear();
  Hooked hooked;
  hooked.next_node = first_node;
  return hooked;
}

std::string packed_text(const Graph& forward, const HookedTensor& tensor) {
  std::string text;
  for (const auto& output : tensor.pack.outputs) {
    text += (text.empty() ? "" : ", ") + meta_text(tensor.pack.value(output.value).meta);
  }
  return fmt::format("%{}: {} as {}", tensor.value, value_text(forward.value(tensor.value)), text);
}

}  // namespace

const HookedTensor& HookCaptures::on(const TensorMeta& meta) {
  const auto it = std::find_if(known_.begin(), known_.end(),
                               [&](const auto& known) { return known.first == meta; });
  if (it != known_.end()) return it->second;
  return known_.emplace_back(meta, capture_pair(*hooks_, meta)).second;
}

Hooked capture_hooks(HookCaptures& hooks, const Partition& partition, HookFilter filter,
                     int32_t first_node, ProgramReport& report) {
  const auto& forward = partition.forward;
  const Filter names(forward, filter);
  auto hooked = none_hooked(first_node, report);
  report.hooks = hooks.pair().options.name;
  for (const auto& saved : partition.saved) {
    const auto& value = forward.value(saved.value);
    if (value.kind != ValueKind::tensor) continue;
    if (auto why = names.why_not(saved.value); !why.empty()) {
      report.not_hooked.push_back(
          fmt::format("%{}: {}: {}", saved.value, value_text(value), std::move(why)));
      continue;
    }
    auto tensor = hooks.on(value.meta);
    if (change_nothing(tensor)) {
      report.not_hooked.push_back(
          fmt::format("%{}: {}: the hooks leave it as it is", saved.value, value_text(value)));
      continue;
    }
    tensor.value = saved.value;
    report.hooked.push_back(packed_text(forward, tensor));
    hooked.tensors.push_back(std::move(tensor));
  }
  return hooked;
}

Hooked capture_packed(std::span<HookCaptures> ways, const Partition& partition, int32_t first_node,
                      ProgramReport& report) {
  const auto& forward = partition.forward;
  auto hooked = none_hooked(first_node, report);
  std::set<std::string> names;
  for (const auto& saved : partition.saved) {
    const auto it = partition.packed.find(saved.value);
    if (it == partition.packed.end()) continue;
    auto& way = ways[static_cast<size_t>(it->second)];
    auto tensor = way.on(forward.value(saved.value).meta);
    tensor.value = saved.value;
    names.insert(way.pair().options.name);
    report.hooked.push_back(packed_text(forward, tensor) + " (" + way.pair().options.name + ")");
    hooked.tensors.push_back(std::move(tensor));
  }
  report.hooks = fmt::format("{}", fmt::join(names, ", "));
  return hooked;
}

Packings weigh(std::span<HookCaptures> ways, bool always, const Graph& joint, HookFilter filter,
               const ByteRules& rules) {
  Packings packings;
  packings.always = always;
  for (const auto& way : ways) packings.ways.push_back(way.pair().options.name);
  const auto machine = *machine_named(budget::machine_of(joint));
  const Filter names(joint, filter);
  std::vector<ValueId> candidates;
  for (const auto& node : joint.nodes) {
    for (const auto id : node.outputs) {
      const bool tensor = id != kNoValue && joint.value(id).kind == ValueKind::tensor;
      if (tensor && joint.value(id).storage == id && names.why_not(id).empty()) {
        candidates.push_back(id);
      }
    }
  }
  std::sort(candidates.begin(), candidates.end());
  for (const auto id : candidates) {
    for (size_t way = 0; way < ways.size(); ++way) {
      try {
        const auto& tensor = ways[way].on(joint.value(id).meta);
        if (change_nothing(tensor)) continue;
        packings.entries.push_back(
            {id, static_cast<int32_t>(way), pack_cost(tensor, machine, rules)});
      } catch (const std::exception&) {
        // Of a tensor that may never be saved: if it is, capture_hooks() says so.
      }
    }
  }
  return packings;
}

}  // namespace antegrad::compiler
