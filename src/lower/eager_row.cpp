#include "lower/eager_row.h"

#include <algorithm>
#include <map>

namespace antegrad::lower {

EagerRow eager_row(const GroupLayout& layout, ValueId output, const RecipeCall& call) {
  EagerRow eager;
  const auto order = layout.memory_order(output);
  if (!order) {
    eager.known = false;
    return eager;
  }
  eager.order = *order;
  if (order->empty()) return eager;
  struct Operand {
    std::string name;
    std::map<int32_t, int64_t> strides;
    int64_t at(int32_t atom) const {
      const auto found = strides.find(atom);
      return found == strides.end() ? 0 : found->second;
    }
  };
  std::vector<Operand> operands = {{"", layout.strides(output, layout.of(output))}};
  for (size_t i = 0; i < call.operands.size(); ++i) {
    Operand operand{call.recipe->inputs[i].name, {}};
    const ValueId id = call.operands[i].value;
    if (id != kNoValue) operand.strides = layout.strides(id, *layout.broadcast(id, output));
    operands.push_back(std::move(operand));
  }
  // Numbers that ATen makes a tensor of.
  for (const RecipeRow& row : call.recipe->rows) {
    const auto& numbers = call.recipe->numbers;
    const bool number = std::ranges::find(numbers, row.constant) != numbers.end();
    const bool seen = std::ranges::find(operands, row.constant, &Operand::name) != operands.end();
    if (number && !seen) operands.push_back({row.constant, {}});
  }
  int constants = 0;
  eager.vectors = true;
  for (const Operand& operand : operands) {
    const int64_t stride = operand.at(order->back());
    if (stride == 0) {
      ++constants;
      eager.constant = operand.name;
    } else if (stride != 1) {
      eager.vectors = false;
    }
  }
  if (constants > 1) eager.vectors = false;
  for (eager.row = 1; eager.row < order->size(); ++eager.row) {
    const int32_t outer = (*order)[order->size() - eager.row - 1];
    const int32_t inner = (*order)[order->size() - eager.row];
    const bool merges = std::ranges::all_of(operands, [&](const Operand& operand) {
      return operand.at(outer) == operand.at(inner) * layout.size(inner);
    });
    if (!merges) break;
  }
  return eager;
}

}  // namespace antegrad::lower
