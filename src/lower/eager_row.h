#pragma once

/// \file
/// How eager walked through the elements of a node: TensorIterator's order and rows, from the
/// strides of its operands and result.

#include <string>

#include "lower/aten_recipes.h"
#include "lower/group_layout.h"

namespace antegrad::lower {

struct EagerRow {
  bool known = true;     ///< false if elements of the result share memory
  bool vectors = false;  ///< otherwise the code for single elements ran everywhere
  std::string constant;  ///< the operand that has the stride 0, if one has
  size_t row = 0;        ///< atoms of a row, from the inner end on
  Atoms order;
};

/// `output`, which has a layout, is the result of `call`.
EagerRow eager_row(const GroupLayout& layout, ValueId output, const RecipeCall& call);

}  // namespace antegrad::lower
