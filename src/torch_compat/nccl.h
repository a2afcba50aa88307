#pragma once

/// \file
/// NCCL, c10d's engine for NVIDIA's GPUs. The only place that knows its headers.

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace antegrad::torch_compat {

/// An engine for the tensors of each rank's GPU. Ranks find each other through `store` at their
/// first collective, which must be on a GPU of its own for each. Null if libtorch is one without
/// CUDA, antegrad was built without NCCL's headers, or this process sees no GPU. Throws the errors
/// of c10d.
///
/// Collectives end on streams: waiting for one orders this thread's stream after it. One that does
/// not end in time makes libtorch end the process, unless TORCH_NCCL_ASYNC_ERROR_HANDLING says
/// otherwise.
c10::intrusive_ptr<c10d::Backend> nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size,
                                               std::chrono::milliseconds timeout);

}  // namespace antegrad::torch_compat
