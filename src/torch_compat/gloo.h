#pragma once

/// \file
/// Gloo, c10d's engine for the CPU. The only place that knows its headers, which libtorch's package
/// lacks; those of another version serve, since none of their inline code is called.

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace antegrad::torch_compat {

/// Connects this rank with the others through `store`. Null if antegrad was built without Gloo's
/// headers. Throws the errors of c10d. The network is that of the interface which the environment
/// variable GLOO_SOCKET_IFNAME names, or of the machine's host name.
c10::intrusive_ptr<c10d::Backend> gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size,
                                               std::chrono::milliseconds timeout);

}  // namespace antegrad::torch_compat
