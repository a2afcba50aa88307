#include "runtime/backward_program.h"

#include <antegrad/error.h>

#include <algorithm>
#include <string>
#include <utility>

#include "ops/answer.h"

namespace antegrad::runtime {

int64_t BackwardProgram::bytes() const {
  return program.bytes() +
         static_cast<int64_t>(inputs.size() * sizeof(Input) + gradients.size() * sizeof(int32_t));
}

std::shared_ptr<const BackwardProgram> backward_program(
    const CallPlan& plan, const Graph& graph, const ops::AttrTables& tables,
    const ForwardValues& forward_values, AliasCheck aliases, const BackwardProgram* like,
    std::span<const GeneratedKernel> kernels, std::shared_ptr<GraphCounts> graphs) {
  using Kind = BackwardProgram::Input::Kind;
  BackwardProgram program{
      Program(graph, tables, aliases, like == nullptr ? nullptr : &like->program, {}, kernels,
              std::move(graphs)),
      {},
      {}};
  for (const auto& input : graph.inputs) {
    if (input.kind == InputKind::tangent) {
      program.inputs.push_back({Kind::tangent, plan.tangent_of(input.index)});
    } else if (input.kind == InputKind::saved) {
      const auto other = forward_values.find(input.value);
      const auto value = other == forward_values.end() ? input.value : other->second;
      const auto slot = plan.slot_of(value);
      AG_CHECK(slot >= 0, "a value that the forward does not save");
      program.inputs.push_back({Kind::saved, slot});
    } else {
      program.inputs.push_back({Kind::token, -1});
    }
  }
  const auto& receivers = plan.gradients;
  program.gradients.assign(receivers.size(), -1);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto& output = graph.outputs[i];
    if (output.kind != OutputKind::gradient || output.value == kNoValue) continue;
    const auto receiver = std::find(receivers.begin(), receivers.end(), output.index);
    AG_CHECK(receiver != receivers.end(), "a gradient that nobody receives");
    program.gradients[receiver - receivers.begin()] = static_cast<int32_t>(i);
  }
  return std::make_shared<const BackwardProgram>(std::move(program));
}

std::vector<at::Tensor> run(const BackwardProgram& program, std::vector<at::Tensor> inputs,
                            const LineFinder& lines) {
  try {
    return program.program.run(std::move(inputs), lines);
  } catch (const ops::UnexpectedAnswer& unexpected) {
    throw BackwardError(ErrorText{
        "data that give the same answer in the backward as when the region was captured",
        "node #" + std::to_string(unexpected.node) + ", on which no result depends, that finds " +
            ops::to_text(unexpected.found),
        "remove values that are computed and then overwritten from the region, or from the loss"});
  }
}

}  // namespace antegrad::runtime
