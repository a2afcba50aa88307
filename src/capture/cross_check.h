#pragma once

/// \file
/// Compares shape functions and Meta kernels with real kernels during a capture
/// (Options::cross_check_shapes).

#include <antegrad/options.h>

#include "capture/infer.h"

namespace antegrad::capture {

/// Compares the inferred result of one call with that of the real kernel on harmless data, and
/// counts the outcome in `counts`. If they differ, throws ShapeMismatchError or puts the kernel's
/// result into `found`. `mode` must not be off. Operators with effects, and calls that the kernel
/// refuses on such data, count as skipped.
void cross_check(CrossCheckShapes mode, const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                 c10::Device device, Inferred& found, InferCounts& counts);

}  // namespace antegrad::capture
