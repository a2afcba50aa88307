#include "compile/number_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/hash.h"
#include "ops/attrs.h"
#include "ops/number.h"
#include "ops/op_table.h"
#include "torch_compat/convert.h"

namespace antegrad::compiler {
namespace {

// The argument that a capture with constants records.
Attr constant(const at::Tensor& number, ops::ArgKind kind) {
  if (kind == ops::ArgKind::integer) {
    return Attr(IntExpr(std::get<int64_t>(ops::read_number(number))));
  }
  auto scalar = ops::from_scalar(ops::to_scalar(ops::read_number(number)));
  if (kind == ops::ArgKind::scalar) return Attr(std::move(scalar));
  return Attr(attr::WrappedNumber{std::move(scalar), torch_compat::to_dtype(number.scalar_type())});
}

// Replaces the uses of numbers by constants.
void put_values(Node& node, const IdMap<ValueId, at::Tensor>& values) {
  const auto& kinds = ops::entry_of(node.op).args;
  size_t next = 0;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const auto count = static_cast<size_t>(node.args[i].input_count());
    const bool number = node.args[i].is<attr::Input>() && values[node.inputs[next]].defined();
    if (!number) {
      next += count;
      continue;
    }
    node.args[i] = constant(values[node.inputs[next]], kinds[i]);
    node.inputs.erase(node.inputs.begin() + static_cast<std::ptrdiff_t>(next));
  }
}

Graph with_constants(const capture::Captured& captured) {
  auto graph = captured.joint;
  IdMap<ValueId, at::Tensor> values(graph.values.size());
  std::vector<int32_t> moved;  // by input: its new index
  std::vector<Input> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    auto& input = graph.inputs[i];
    moved.push_back(static_cast<int32_t>(inputs.size()));
    if (ops::is_number(input)) {
      values[input.value] = captured.primals[i];
    } else {
      inputs.push_back(std::move(input));
    }
  }
  graph.inputs = std::move(inputs);
  for (auto& node : graph.nodes) put_values(node, values);
  for (auto& output : graph.outputs) {
    const bool of_input =
        output.kind == OutputKind::mutated_input || output.kind == OutputKind::gradient;
    if (of_input) output.index = moved[output.index];
    if (output.alias.of_input()) output.alias.index = moved[output.alias.index];
  }
  return graph;
}

}  // namespace

bool same_but_for_numbers(const capture::Captured& numbers, const capture::Captured& constants) {
  return structural_hash(with_constants(numbers)) == structural_hash(constants.joint);
}

}  // namespace antegrad::compiler
