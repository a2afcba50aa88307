#pragma once

/// \file
/// Conversion between IValues, which the dispatcher passes, and Attrs, which the graph holds.

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "graph/graph.h"
#include "ops/op_table.h"

namespace antegrad::ops {

/// Objects to which attributes refer by number, because a graph cannot hold them as text.
struct AttrTables {
  std::vector<at::Generator>
      generators;                    ///< by Graph::generators; undefined for default generators
  std::vector<c10::IValue> opaques;  ///< by Graph::opaque_names
};

/// The Attr of a non-tensor argument. Adds generators and opaque objects to `graph` and `tables`.
/// Throws CaptureError for symbolic numbers, which stand-ins never produce.
Attr to_attr(const c10::IValue& value, ArgKind kind, Graph& graph, AttrTables& tables);

/// The IValue of any Attr except Input and InputList. `symbols` are the values of symbols.
c10::IValue to_ivalue(const Attr& attr, const AttrTables& tables,
                      const std::vector<int64_t>& symbols = {});

/// The index of the generator in `graph` and `tables`, added on first use. An undefined generator
/// stands for the default one of `device`.
int32_t generator_index(const at::Generator& generator, c10::Device device, Graph& graph,
                        AttrTables& tables);

at::Scalar to_scalar(const attr::Scalar& scalar, const std::vector<int64_t>& symbols = {});
attr::Scalar from_scalar(const at::Scalar& scalar);

}  // namespace antegrad::ops
