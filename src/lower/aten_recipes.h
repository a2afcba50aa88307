#pragma once

/// \file
/// Which recipe computes a call of an ATen operator, and from which of its arguments.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "lower/aten_gathers.h"
#include "lower/aten_parts.h"
#include "lower/aten_windows.h"
#include "lower/eager_cpu.h"
#include "lower/level.h"
#include "lower/recipe.h"

namespace antegrad::lower {

/// An operand of a recipe: a tensor, or a number that takes the place of one.
struct RecipeOperand {
  ValueId value = kNoValue;
  double number = 0;               ///< without a value: rounded to the element type
  DType number_type = DType::f64;  ///< f64, i64 or bool: which kind of number was given
  bool of_row = false;  ///< has one element a row: the dimensions that are not RecipeCall::reduced
};

/// The values of an operand that counts classes: [0, count), or `ignored`.
struct ClassBound {
  ValueId value;
  int64_t count = 0;
  int64_t ignored = 0;
};

struct RecipeCall {
  /// Null where the result is the operand itself: a copy, or a tensor filled with a number. Without
  /// an operand it is numbers[0] + numbers[1] * (index of the only dimension).
  const Recipe* recipe = nullptr;
  std::vector<RecipeOperand> operands;
  std::vector<double> numbers;
  std::optional<GatherCall> gather = {};  ///< then nothing else
  std::optional<PartsCall> parts = {};    ///< then the operands are the parts, and nothing else
  std::optional<WindowCall> window = {};  ///< then nothing else
  /// Of a reduction: the dimensions of its first operand that make a row, ascending.
  std::vector<int32_t> reduced = {};
  std::optional<ClassBound> classes = {};

  /// Whether the call runs over the elements of its first operand, not over those of its result.
  bool runs_over_operand() const { return parts || (!reduced.empty() && !recipe->has_elements()); }

  /// Whether the result depends on no tensor.
  bool is_factory() const {
    const bool tensor = !operands.empty() && operands[0].value != kNoValue;
    return recipe == nullptr && !tensor && !gather && !window;
  }
};

/// What eager computes for a node, or the reason, in words, why no recipe is known. All sizes must
/// be numbers. At Level::close it does not matter which of its kernels eager runs.
std::variant<RecipeCall, std::string> recipe_call(const Graph& graph, const Node& node,
                                                  const EagerCpu& cpu, Level level = Level::exact);

}  // namespace antegrad::lower
