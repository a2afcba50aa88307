#pragma once

/// \file
/// Infers an operator's results from metadata: by shape function, otherwise by the C++ Meta kernel,
/// otherwise by the real kernel on made-up data (ops/trial_data.h) under private generators
/// (memoised, counted, logged as `shape`).

#include <ATen/core/ivalue.h>
#include <antegrad/report.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/op_table.h"
#include "shapes/shape_call.h"

namespace antegrad::capture {

/// The number of results of a capture by source.
struct InferCounts {
  int64_t shape_functions = 0;
  int64_t meta_kernels = 0;
  int64_t real_kernels = 0;                  ///< runs of real kernels
  int64_t memoised = 0;                      ///< results of an earlier run of the real kernel
  std::map<std::string, int64_t> slow;       ///< operators without a shape function, with counts
  std::map<std::string, ShapeCheck> checks;  ///< by operator, if the capture cross-checks
};

/// The source of the metadata of a call's results.
enum class ShapeSource : uint8_t { shape_function, meta_kernel, real_kernel };

struct Inferred {
  std::vector<shapes::Spec> specs;
  ShapeSource source;
};

/// The result of the shape function alone; nothing if there is none or it declines. For operators
/// that must not run on made-up data: with integer indices `index` has a shape, with masks it has
/// none.
std::optional<std::vector<shapes::Spec>> infer_by_shape_function(const ops::OpEntry& entry,
                                                                 at::ArrayRef<c10::IValue> args,
                                                                 InferCounts& counts);

/// Metadata of all outputs, with lists flattened. `args` hold stand-ins (or real tensors, of which
/// only metadata is used); the kernel would run on `device`. Throws the operator's own errors for
/// invalid arguments.
Inferred infer(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args, c10::Device device,
               InferCounts& counts);

}  // namespace antegrad::capture
