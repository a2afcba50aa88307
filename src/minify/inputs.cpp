#include "minify/inputs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <antegrad/error.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::minify {
namespace {

// An operator that reads indices.
struct Reader {
  std::string_view op;
  int index;    // the argument with the indices
  int indexed;  // the argument into which they point
  int dim;      // its dimension; -1: argument 1 says it; -2: list entry i points into dimension i
};
constexpr Reader kReaders[] = {
    {"aten::embedding", 1, 0, 0},
    {"aten::index_select", 2, 0, -1},
    {"aten::gather", 2, 0, -1},
    {"aten::scatter", 2, 0, -1},
    {"aten::scatter_add", 2, 0, -1},
    {"aten::index_add", 2, 0, -1},
    {"aten::index_copy", 2, 0, -1},
    {"aten::index_fill", 2, 0, -1},
    {"aten::index", 1, 0, -2},
    {"aten::index_put", 1, 0, -2},
    {"aten::_unsafe_index", 1, 0, -2},
    {"aten::_unsafe_index_put", 1, 0, -2},
    {"aten::nll_loss_forward", 1, 0, 1},
    {"aten::nll_loss_backward", 2, 1, 1},
    {"aten::nll_loss2d_forward", 1, 0, 1},
    {"aten::nll_loss2d_backward", 2, 1, 1},
};

// The inputs that an argument takes.
std::span<const ValueId> operands(const Node& node, int argument) {
  size_t begin = 0;
  for (int i = 0; i < argument; ++i) begin += node.args[i].input_count();
  return std::span(node.inputs).subspan(begin, node.args[argument].input_count());
}

// By integer tensor: the number of valid indices where operators read it as such.
class Bounds {
 public:
  explicit Bounds(const Graph& graph) : graph_(graph), bounds_(graph.values.size()) {
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) note(*node);
  }

  int64_t of(ValueId id) const { return bounds_[id].value_or(2); }

 private:
  void limit(ValueId id, int64_t bound) {
    auto& known = bounds_[id];
    known = std::min(known.value_or(bound), std::max<int64_t>(bound, 1));
  }

  void note(const Node& node) {
    const auto& name = node.op.info().base_name;
    if (name == "aten::embedding_dense_backward" && node.args[2].is<IntExpr>()) {
      for (const auto id : operands(node, 1)) limit(id, node.args[2].as<IntExpr>().constant());
    }
    const auto* reader = std::ranges::find(kReaders, name, &Reader::op);
    if (reader != std::end(kReaders)) note(node, *reader);
    // What a copy, a cast or a view reads has the bounds of its result.
    if (node.outputs.empty() || node.inputs.empty() || !graph_.is_tensor(node.outputs[0])) return;
    const auto& bound = bounds_[node.outputs[0]];
    if (bound && graph_.is_tensor(node.inputs[0])) limit(node.inputs[0], *bound);
  }

  void note(const Node& node, const Reader& reader) {
    const auto self = operands(node, reader.indexed);
    if (self.size() != 1) return;
    const auto& sizes = graph_.value(self[0]).meta.sizes;
    const auto size_of = [&](int64_t dim) {
      if (dim < 0) dim += static_cast<int64_t>(sizes.size());
      return sizes.empty() ? 1 : sizes[std::min<size_t>(dim, sizes.size() - 1)].constant();
    };
    if (reader.dim == -2) {
      if (!node.args[reader.index].is<attr::InputList>()) return;
      const auto indices = operands(node, reader.index);
      size_t next = 0;
      int64_t dim = 0;
      for (const bool present : node.args[reader.index].as<attr::InputList>().present) {
        if (present) limit(indices[next++], size_of(dim));
        ++dim;
      }
      return;
    }
    int64_t dim = reader.dim;
    if (dim == -1) {
      if (!node.args[1].is<IntExpr>()) return;
      dim = node.args[1].as<IntExpr>().constant();
    }
    for (const auto id : operands(node, reader.index)) limit(id, size_of(dim));
  }

  const Graph& graph_;
  IdMap<ValueId, std::optional<int64_t>> bounds_;
};

bool has_symbols(const TensorMeta& meta) {
  const auto symbolic = [](const IntExpr& e) { return !e.is_constant(); };
  return std::ranges::any_of(meta.sizes, symbolic) || std::ranges::any_of(meta.strides, symbolic) ||
         symbolic(meta.offset);
}

at::Tensor elements(int64_t count, at::ScalarType dtype, int64_t bound, Data data,
                    const at::Generator& generator) {
  if (c10::isIntegralType(dtype, /*includeBool=*/true)) {
    if (dtype == at::kBool) return at::randint(2, {count}, generator, at::kLong).to(dtype);
    if (data == Data::zeros) return at::zeros({count}, dtype);
    return at::randint(bound, {count}, generator, at::kLong).to(dtype);
  }
  if (c10::isComplexType(dtype)) return at::randn({count}, generator, at::kComplexDouble).to(dtype);
  if (data == Data::normal) return at::randn({count}, generator, at::kDouble).to(dtype);
  return at::rand({count}, generator, at::kDouble).add(0.1).to(dtype);
}

}  // namespace

std::vector<at::Tensor> make_inputs(const Graph& graph, uint64_t seed, Data data) {
  const Bounds bounds(graph);
  std::vector<at::Tensor> inputs;
  for (const auto& input : graph.inputs) {
    if (!graph.is_tensor(input.value)) {
      inputs.emplace_back();
      continue;
    }
    const auto& meta = graph.value(input.value).meta;
    const auto known = torch_compat::TensorMetadata::of(meta);
    const auto generator = at::detail::createCPUGenerator(seed * 1'000'003 + input.value.index());
    const auto count = meta.offset.constant() + span_bytes(meta).constant() / byte_size(meta.dtype);
    inputs.push_back(elements(count, known.dtype, bounds.of(input.value), data, generator)
                         .to(known.device)
                         .as_strided(known.sizes, known.strides, known.offset));
  }
  return inputs;
}

at::Tensor copy_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const auto count =
      static_cast<int64_t>(tensor.storage().nbytes()) / static_cast<int64_t>(tensor.itemsize());
  return tensor.as_strided({count}, {1}, 0)
      .clone()
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

ops::AttrTables make_tables(const Graph& graph, uint64_t seed) {
  if (!graph.opaque_names.empty()) {
    throw GraphError(ErrorText{"a graph without objects that a file cannot hold",
                               graph.opaque_names.front() + " in " + graph.name, ""});
  }
  for (const auto& value : graph.values) {
    if (value.kind != ValueKind::tensor || !has_symbols(value.meta)) continue;
    throw GraphError(ErrorText{"a graph of constant sizes", "symbolic ones in " + graph.name,
                               "capture it for one size"});
  }
  ops::AttrTables tables;
  for (const auto& name : graph.generators) {
    const bool own = name.starts_with("user:") && name.ends_with(":cpu");
    tables.generators.push_back(own ? at::detail::createCPUGenerator(seed) : at::Generator());
  }
  return tables;
}

}  // namespace antegrad::minify
