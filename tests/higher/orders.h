#pragma once

/// \file
/// Gradients of several orders, taken outside of a callable: the same for a compiled and an eager
/// one.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace antegrad::testing {

using List = std::vector<at::Tensor>;
using ListFunction = std::function<List(const List&)>;

/// Results, and gradients up to `orders`, each of a function of the ones before (so tangents have a
/// history) if `nonlinear`, otherwise of their weighted sums.
List gradients_up_to(int orders, const ListFunction& function, const List& inputs, bool nonlinear);

/// Compiled with create_graph allowed. Expects that nothing fell back to eager, once results and
/// gradients were computed.
void expect_higher_orders(int orders, const ListFunction& function, const List& inputs,
                          bool nonlinear);

}  // namespace antegrad::testing
