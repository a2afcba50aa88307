#pragma once

/// \file
/// Which arguments of operators may be numbers that are inputs of a graph (ops/number.h).

#include <cstddef>

#include "ops/op_table.h"

namespace antegrad::ops {

/// A Scalar; or an integer on which neither sizes nor strides of results depend, such as the index
/// of `select_backward`. The value of any other integer is part of a graph.
bool may_be_number(const OpEntry& entry, size_t argument);

}  // namespace antegrad::ops
