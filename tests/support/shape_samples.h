#pragma once

/// \file
/// Random arguments for any operator that has a shape function. Most follow from the schema, by
/// types and names of arguments. Operators whose arguments must fit together have an entry in a
/// table. The operator may refuse a sample, which is then dropped.

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

/// Whether the operator has a table entry, or its schema alone determines valid arguments.
bool has_samples(const c10::FunctionSchema& schema);
/// Arguments for `schema`. All tensors come from `random`.
Arguments sample_arguments(const c10::FunctionSchema& schema, RandomTensors& random);

/// Operators whose arguments must fit together: views, products, factories.
const ArgumentsTable& general_samples();
/// Joining, gathering, scattering, advanced indexing.
const ArgumentsTable& indexing_samples();
/// Norms, convolution.
const ArgumentsTable& layer_samples();
/// Pooling, resampling, padding.
const ArgumentsTable& image_samples();
/// Special functions, distances, random numbers: arguments within the valid range.
const ArgumentsTable& rare_samples();
/// Embedding, losses and activations with more than one argument.
const ArgumentsTable& loss_samples();
/// Fused attention.
const ArgumentsTable& attention_samples();

/// Text for a failing test: dtypes, sizes and strides of tensors, and the values of other
/// arguments.
std::string describe(const Arguments& arguments);

}  // namespace antegrad::testing
