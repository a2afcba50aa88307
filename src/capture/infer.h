#pragma once

/// \file
/// What an operator would return, from metadata: shape function first, then the C++ Meta kernel,
/// then the real kernel on zeros under private generators (memoised, counted, logged as `shape`).

#include <ATen/core/ivalue.h>
#include <antegrad/report.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/op_table.h"
#include "shapes/shape_call.h"

namespace antegrad::capture {

/// How the outputs of a capture were found.
struct InferCounts {
  int64_t shape_functions = 0;
  int64_t meta_kernels = 0;
  int64_t real_kernels = 0;                  ///< real kernels actually run
  int64_t memoised = 0;                      ///< answered from an earlier run of the real kernel
  std::map<std::string, int64_t> slow;       ///< operators that had no shape function, with counts
  std::map<std::string, ShapeCheck> checks;  ///< by operator, where a capture cross-checks
};

/// Who described the outputs of a call.
enum class ShapeSource : uint8_t { shape_function, meta_kernel, real_kernel };

struct Inferred {
  std::vector<shapes::Spec> specs;
  ShapeSource source;
};

/// The shape function's answer alone; nothing when there is none or it declines. For operators that
/// must not run on invented data: with integer indices `index` has a shape, with masks it has none.
std::optional<std::vector<shapes::Spec>> infer_by_shape_function(const ops::OpEntry& entry,
                                                                 at::ArrayRef<c10::IValue> args,
                                                                 InferCounts& counts);

/// Metadata of all outputs, lists flattened. `args` hold stand-ins (or real tensors, of which only
/// metadata is used), `device` is where the kernel would run. Throws what the operator itself
/// throws for arguments that do not fit together.
Inferred infer(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args, c10::Device device,
               InferCounts& counts);

}  // namespace antegrad::capture
