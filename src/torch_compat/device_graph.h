#pragma once

/// \file
/// CUDA graphs: kernels that are recorded once and then start together.
///
/// libtorch's own at::cuda::CUDAGraph is not used. It registers the default generator with each
/// graph, so that in some versions another thread's draw fails while a graph is recorded, and it
/// leaves the allocator in the recording's state if the recording fails. Programs that are recorded
/// here draw nothing.
///
/// Without CUDA in libtorch nothing is recorded: device_graph_without_cuda.cpp.

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace antegrad::torch_compat {

/// Recorded kernels. To destroy them gives their memory back, except that of living tensors; they
/// may still run.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Starts the kernels on the current stream of the device. Not thread-safe: a run begins after
  /// the end of the last one, so all replays belong on the stream that was current before they were
  /// recorded. Throws c10::Error.
  virtual void replay() const = 0;
  /// Of the memory that belongs to it.
  virtual int64_t bytes() const = 0;
  /// Kernels, copies and fills in it.
  virtual int64_t size() const = 0;
};

/// Records what `run` starts on the current stream of the device, which is one of its own while it
/// runs. No kernel runs. Tensors that `run` makes lie in memory that belongs to the graph: while
/// one of them lives, its place is no other tensor's, and each replay writes to it. Throws what
/// `run` throws, and c10::Error if something cannot be recorded, such as a question about data or a
/// copy from the host; then nothing was recorded. Calls of other threads may go on, except that the
/// device as a whole cannot be waited for.
std::unique_ptr<DeviceGraph> record_graph(c10::Device device, const std::function<void()>& run);

}  // namespace antegrad::torch_compat
