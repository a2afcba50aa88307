#pragma once

/// \file
/// Random arguments for any operator that has a shape function. Most come from the schema alone,
/// by the types and names of its arguments; operators whose arguments must fit together have a line
/// in a table. A sample may be one that the operator refuses: then it is dropped.

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

/// Whether there is a line for the operator, or its schema alone says what its arguments may be.
bool has_samples(const c10::FunctionSchema& schema);
/// Arguments for `schema`, whose tensors must all be such as `random` makes.
Arguments sample_arguments(const c10::FunctionSchema& schema, RandomTensors& random);

/// Arguments that must fit together: views, products, factories.
const ArgumentsTable& general_samples();
/// Joining, gathering, scattering, advanced indexing.
const ArgumentsTable& indexing_samples();
/// Norms, convolution.
const ArgumentsTable& layer_samples();
/// Pooling, resampling, padding.
const ArgumentsTable& image_samples();
/// Special functions, distances, random numbers: arguments within their range.
const ArgumentsTable& rare_samples();
/// Embedding, losses and activations with more than one argument.
const ArgumentsTable& loss_samples();
/// Fused attention.
const ArgumentsTable& attention_samples();

/// For a failing test: dtypes, sizes and strides of tensors, values of the rest.
std::string describe(const Arguments& arguments);

}  // namespace antegrad::testing
