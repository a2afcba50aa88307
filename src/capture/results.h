#pragma once

/// \file
/// The second half of a capture: from the callable's results to a finished joint graph.

#include <ATen/core/Tensor.h>

#include <vector>

#include "capture/capture.h"
#include "capture/tracer.h"

namespace antegrad::capture {

/// Relates results to inputs and to each other, runs the backward on stand-ins, finds mutated inputs,
/// and writes the graph's input and output records. Runs inside the capture's scope. Results are
/// taken by value so that no stand-in outlives the call.
void finish_joint(Tracer& tracer, std::vector<at::Tensor> results, Captured& captured);

}  // namespace antegrad::capture
