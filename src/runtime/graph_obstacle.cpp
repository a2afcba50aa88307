#include "runtime/graph_obstacle.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "graph/generated_node.h"
#include "ops/op_table.h"

namespace antegrad::runtime {
namespace {

// Operators of our own whose kernels only start other kernels.
constexpr std::string_view kOnDevice[] = {"antegrad::restride",
                                          "antegrad::as_strided_scatter",
                                          "antegrad::biased_product",
                                          "antegrad::cross_entropy",
                                          "antegrad::cross_entropy_backward",
                                          "antegrad::cross_entropy_of_rows",
                                          "antegrad::cross_entropy_rows",
                                          "antegrad::_cudnn_rnn",
                                          "antegrad::_cudnn_rnn_backward"};

// By base name; views replay with these where an argument was a part of something larger.
constexpr std::string_view kByPlace[] = {"as_strided", "_reshape_alias"};

// Whether the node is an attention, or the gradient of one, without dropout. It has a place for the
// state of a generator, on the host or the device, and may have a token, but draws nothing.
bool is_quiet_attention(const Node& node) {
  if (node.draws_nothing()) return true;
  const auto& names = ops::entry_of(node.op).op.info().arg_names;
  const auto dropout = std::ranges::find(names, "dropout_p");
  return dropout != names.end() && node.args.size() == names.size() &&
         node.args[dropout - names.begin()] == Attr(0.0);
}

// What a node does besides starting kernels; empty for nothing.
std::string_view on_host(const Node& node) {
  if (is_generated(node)) return {};
  const auto& traits = node.op.traits();
  if (traits.collective || traits.waits) return "communicates";
  if (traits.effect || traits.question) return "has effects";
  if ((traits.random || node.tokens > 0) && !is_quiet_attention(node)) {
    return "draws random numbers";
  }
  if (traits.leaves_device) return "moves data to the host or back";
  if (traits.names_code) return "calls code of the user's";
  const auto& entry = ops::entry_of(node.op);
  // Numbers that an operator returns are sizes otherwise, the same in each call.
  if (entry.policy == ops::Policy::dynamic_outputs ||
      entry.handle.hasTag(at::Tag::data_dependent_output)) {
    return "asks about data";
  }
  const auto& name = entry.op.info().base_name;
  if (entry.custom && std::ranges::find(kOnDevice, name) == std::end(kOnDevice)) {
    return "is an operator of the user's, or of antegrad's on the host";
  }
  return {};
}

std::string name_of(const Node& node) { return is_generated(node) ? "a kernel" : node.op.name(); }

// Looks at values until one is found that a graph cannot have.
class Values {
 public:
  explicit Values(const Graph& graph) : graph_(graph) {}

  // Tokens are looked at by node.
  void visit(ValueId id, bool may_be_on_host) {
    if (id == kNoValue || !other_.empty()) return;
    const auto& value = graph_.value(id);
    const auto& meta = value.meta;
    if (value.kind == ValueKind::token) return;
    if (value.kind != ValueKind::tensor) {
      other_ = "a number on the host";
    } else if (meta.device.kind != DeviceKind::cuda) {
      if (!may_be_on_host) other_ = "a tensor on " + to_string(meta.device);
    } else if (device_ && *device_ != meta.device) {
      other_ = "tensors on " + to_string(*device_) + " and " + to_string(meta.device);
    } else {
      device_ = meta.device;
    }
  }
  const std::string& other() const { return other_; }
  bool has_device() const { return device_.has_value(); }

 private:
  const Graph& graph_;
  std::optional<Device> device_;
  std::string other_;
};

bool is_saved_state(const Graph& graph, const Output& output) {
  return output.kind == OutputKind::saved && output.value != kNoValue &&
         graph.value(output.value).kind == ValueKind::token;
}

}  // namespace

std::string graph_obstacle(const Graph& graph) {
  Values values(graph);
  for (const auto& node : graph.nodes) {
    if (const auto what = on_host(node); !what.empty()) {
      return name_of(node) + " " + std::string(what);
    }
    const bool has_state = !is_generated(node) && is_quiet_attention(node);
    for (const auto id : node.inputs) values.visit(id, has_state);
    for (const auto id : node.outputs) {
      if (id != kNoValue && graph.value(id).kind == ValueKind::integer) continue;  // a size
      values.visit(id, has_state);
    }
    if (!values.other().empty()) return name_of(node) + " reads or makes " + values.other();
  }
  if (!values.has_device()) return "it starts no kernels";
  for (const auto& output : graph.outputs) {
    if (is_saved_state(graph, output)) return "it keeps the state of a generator";
    values.visit(output.value, /*may_be_on_host=*/true);
  }
  return values.other().empty() ? "" : "it returns " + values.other();
}

bool reads_whole_storage(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    const auto& name = node.op.info().base_name;
    return std::ranges::any_of(
        kByPlace, [&](std::string_view part) { return name.find(part) != std::string::npos; });
  });
}

}  // namespace antegrad::runtime
