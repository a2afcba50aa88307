#include "lower/element_type.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "lower/code_builder.h"
#include "lower/promotion.h"

namespace antegrad::lower {

std::variant<DType, std::string> element_of(const Graph& graph, const Node& node,
                                            const RecipeCall& call, Level level) {
  const Recipe& recipe = *call.recipe;
  const std::string& operation = node.op.name();
  const DType to = graph.value(node.outputs[0]).meta.dtype;
  const auto mixes = [&](DType a, DType b) {
    return fmt::format("{} mixes element types: {} and {}", operation, name(a), name(b));
  };
  std::optional<DType> first;
  CommonType tensors;
  CommonType all;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const RecipeOperand& operand = call.operands[i];
    const auto& fixed = recipe.inputs[i].type;
    if (operand.value == kNoValue) {
      if (!fixed) all.add_number(operand.number_type);
      continue;
    }
    const TensorMeta& meta = graph.value(operand.value).meta;
    if (fixed && meta.dtype != *fixed) return mixes(*fixed, meta.dtype);
    if (fixed) continue;
    if (!first) first = meta.dtype;
    const bool is_wider = level == Level::close && meta.dtype == arithmetic_type(*first);
    if (!recipe.promotes && meta.dtype != *first && !is_wider) return mixes(*first, meta.dtype);
    tensors.add_tensor(meta.dtype, !meta.sizes.empty());
    all.add_tensor(meta.dtype, !meta.sizes.empty());
  }
  if (!first) return operation + " has no tensor operand";
  if (!recipe.promotes) return *first;
  if (recipe.result) {
    const auto common = all.type();
    if (!common) return operation + " compares in the default type";
    return *common;
  }
  // Arithmetic is done in the type of its result, to which numbers belong.
  const auto common = tensors.type();
  if (!common || promoted(*common, to) != to) return mixes(common.value_or(*first), to);
  return to;
}

bool is_known_type(DType type) {
  switch (type) {
    case DType::f32:
    case DType::f64:
    case DType::bf16:
    case DType::f16:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::boolean: return true;
    default: return false;
  }
}

bool is_number_of(DType type, double number) {
  if (is_floating(type)) return true;
  if (number != std::trunc(number)) return false;
  if (type == DType::boolean) return number == 0 || number == 1;
  if (type == DType::u8) return number >= 0 && number <= 255;
  const double end = std::ldexp(1, static_cast<int>(8 * byte_size(type) - 1));
  return number >= -end && number < end;
}

}  // namespace antegrad::lower
