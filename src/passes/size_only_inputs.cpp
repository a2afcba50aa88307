#include "passes/size_only_inputs.h"

#include <algorithm>
#include <utility>

namespace antegrad {
namespace {

/// True for arguments that request more than a plain tensor: pinned memory, another layout.
bool asks_for_more(const Attr& arg) {
  if (arg.is<bool>()) return arg.as<bool>();
  return arg.is<attr::Layout>() && arg.as<attr::Layout>().name != "strided";
}

bool has_factory(const Graph& graph, const Node& node) {
  const Factory& factory = node.op.info().row->factory;
  if (factory.name.empty() || node.tokens != 0 || node.outputs.size() != 1 ||
      node.inputs.size() != 1 || node.outputs[0] == kNoValue) {
    return false;
  }
  const auto fill = static_cast<size_t>(factory.fill);
  if (factory.fill >= 0 && (fill >= node.args.size() || !node.args[fill].is<attr::Scalar>())) {
    return false;
  }
  const TensorMeta& meta = graph.value(node.outputs[0]).meta;
  return (factory.takes_strides || meta.strides == contiguous_strides(meta.sizes)) &&
         std::ranges::none_of(node.args, asks_for_more);
}

void to_factory(const Graph& graph, Node& node) {
  const Factory& factory = node.op.info().row->factory;
  const TensorMeta& meta = graph.value(node.outputs[0]).meta;
  std::vector<Attr> args{meta.sizes};
  if (factory.takes_strides) args.emplace_back(meta.strides);
  if (factory.fill >= 0) args.push_back(node.args[factory.fill]);
  args.emplace_back(meta.dtype);
  args.emplace_back(attr::None{});
  args.emplace_back(meta.device);
  args.emplace_back(attr::None{});
  node.op = Op::intern(factory.name);
  node.args = std::move(args);
  node.inputs.clear();
}

}  // namespace

Graph size_only_inputs(Graph graph) {
  for (Node& node : graph.nodes) {
    if (has_factory(graph, node)) to_factory(graph, node);
  }
  return graph;
}

}  // namespace antegrad
