#pragma once

/// \file
/// Shape functions and Meta kernels against real kernels, while a capture runs
/// (Options::cross_check_shapes).

#include <antegrad/options.h>

#include "capture/infer.h"

namespace antegrad::capture {

/// Compares what was found for one call with what the real kernel returns for harmless data, and
/// notes it in `counts`. Where they differ it throws ShapeMismatchError, or puts the kernel's
/// answer into `found`; `mode` is not off. Operators with effects, and calls that the kernel
/// refuses on such data, count as skipped.
void cross_check(CrossCheckShapes mode, const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                 c10::Device device, Inferred& found, InferCounts& counts);

}  // namespace antegrad::capture
