#pragma once

/// \file
/// Random arguments for any operator that has a shape function. Most come from the schema alone,
/// by the types and names of its arguments; operators whose arguments must fit together have a line
/// in one of two tables. A sample may be one that the operator refuses: then it is dropped.

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/random_tensors.h"

namespace antegrad::testing {

using Arguments = std::vector<c10::IValue>;
using ArgumentsFunction = std::function<Arguments(RandomTensors&)>;
using ArgumentsTable = std::map<std::string, ArgumentsFunction>;

/// Arguments for `schema`, whose tensors must all be such as `random` makes.
Arguments sample_arguments(const c10::FunctionSchema& schema, RandomTensors& random);

/// Operators on general tensors: views, products, factories, indexing.
const ArgumentsTable& general_samples();
/// Layers: norms, convolution, pooling, embedding, losses, attention.
const ArgumentsTable& layer_samples();

/// For a failing test: dtypes, sizes and strides of tensors, values of the rest.
std::string describe(const Arguments& arguments);

}  // namespace antegrad::testing
