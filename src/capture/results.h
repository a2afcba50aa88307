#pragma once

/// \file
/// The second half of a capture: from the results of the callable to a finished joint graph.

#include <ATen/core/Tensor.h>

#include <vector>

#include "capture/backward.h"
#include "capture/capture.h"
#include "capture/tracer.h"

namespace antegrad::capture {

/// Relates results to inputs and to each other, finds written inputs, runs the backward on
/// stand-ins, and writes the graph's input and output records. Runs inside the capture's scope.
/// Results are taken by value so that no stand-in outlives the call.
void finish_joint(Tracer& tracer, std::vector<at::Tensor> results, const Request& request,
                  Captured& captured);

}  // namespace antegrad::capture
