#include "hooks/hook_capture.h"

#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "capture/doubles.h"
#include "graph/splice.h"
#include "graph/text.h"
#include "passes/pass_list.h"
#include "torch_compat/autocast.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::hooks {
namespace {

// One hook as a graph.
struct Part {
  Graph graph;
  std::vector<c10::IValue> objects;  // by Graph::opaque_names
  std::vector<HostValue> host;       // what it returns besides tensors
};

[[noreturn]] void refuse(const detail::HookPair& hooks, const char* what, const std::string& found,
                         const std::string& remedy) {
  throw CaptureError("", {fmt::format("{} of '{}' that computes with tensors from the one that is "
                                      "saved alone",
                                      what, hooks.options.name),
                          found, remedy});
}

[[noreturn]] void refuse_kind(const detail::HookPair& hooks, const char* what,
                              const std::string& found) {
  throw HookError(ErrorText{
      fmt::format("strided tensors of libtorch itself from {} of '{}'", what, hooks.options.name),
      found,
      "let pack return the tensors that it is made of, and make it again in unpack, or run the "
      "hooks "
      "eagerly: HookOptions{.inlineable = false}"});
}

// The results of a hook become values of the program.
void require_plain(const detail::HookPair& hooks, const char* what,
                   std::vector<at::Tensor>& tensors) {
  for (auto& tensor : tensors) {
    if (tensor.defined()) tensor = tensor.resolve_conj().resolve_neg();
    const char* found = !tensor.defined() ? "no tensor" : torch_compat::why_not_plain(tensor);
    if (tensor.defined() && tensor.is_meta()) found = "a tensor on the meta device, without data";
    if (found != nullptr) refuse_kind(hooks, what, found);
  }
}

using Body = std::function<Leaves(const std::vector<at::Tensor>&)>;

Part capture_part(const detail::HookPair& hooks, const char* what,
                  const std::vector<TensorMeta>& inputs, const Body& body) {
  Part part;
  capture::Request request;
  request.name = hooks.options.name + "." + what;
  for (const auto& meta : inputs) request.arguments.push_back(capture::double_like(meta));
  request.body = [&](const std::vector<at::Tensor>& tensors) {
    const at::NoGradGuard no_grad;
    auto leaves = body(tensors);
    require_plain(hooks, what, leaves.tensors);
    part.host = std::move(leaves.host);
    return std::move(leaves.tensors);
  };
  // As in eager, where hooks run below autocast.
  const torch_compat::AutocastScope no_autocast{torch_compat::Autocast()};
  auto captured = [&] {
    try {
      return capture::capture(request);
    } catch (const TensorKindError& error) {
      refuse_kind(hooks, what, error.what());
    }
  }();
  const auto& joint = captured.joint;
  const std::string eagerly = "or run it eagerly: HookOptions{.inlineable = false}";
  if (captured.primals.size() > inputs.size()) {
    refuse(hooks, what, "one that reads a tensor it holds",
           "let pack return the tensor with the packed one, " + eagerly);
  }
  if (!captured.questions.empty()) {
    refuse(hooks, what, "one that asks for data", "compute with tensors, " + eagerly);
  }
  if (!joint.generators.empty()) {
    refuse(hooks, what, "one that draws random numbers", eagerly.substr(3));
  }
  for (const auto& output : joint.outputs) {
    const bool plain = output.kind == OutputKind::result && output.value != kNoValue;
    if (output.kind == OutputKind::base || plain) continue;
    refuse(hooks, what, "one that writes to its argument, or has effects", eagerly.substr(3));
  }
  part.objects = std::move(captured.tables.opaques);
  part.graph = run_joint_passes(std::move(captured.joint), {});
  std::erase_if(part.graph.outputs,
                [](const Output& output) { return output.kind != OutputKind::result; });
  return part;
}

// Orders the graph's inputs like the `count` arguments, with one input per argument.
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

// Adds the objects of a part to those that all hooks share.
Graph with_shared_objects(Part part, HookObjects& objects) {
  renumber_objects(part.graph.nodes, static_cast<int32_t>(objects.names.size()));
  const auto& names = part.graph.opaque_names;
  objects.names.insert(objects.names.end(), names.begin(), names.end());
  objects.values.insert(objects.values.end(), part.objects.begin(), part.objects.end());
  part.graph.opaque_names.clear();
  return std::move(part.graph);
}

HookedTensor capture_pair(const detail::HookPair& hooks, const TensorMeta& meta,
                          HookObjects& objects) {
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
  auto pack_graph = with_shared_objects(std::move(pack), objects);
  return {kNoValue, std::move(pack_graph), with_shared_objects(std::move(unpack), objects)};
}

}  // namespace

std::string meta_text(const TensorMeta& meta) {
  Value value;
  value.meta = meta;
  return value_text(value);
}

const HookedTensor& HookCaptures::on(const TensorMeta& meta) {
  const auto it = std::find_if(known_.begin(), known_.end(),
                               [&](const auto& known) { return known.first == meta; });
  if (it != known_.end()) return it->second;
  return known_.emplace_back(meta, capture_pair(*hooks_, meta, *objects_)).second;
}

}  // namespace antegrad::hooks
