#pragma once

/// \file
/// A tensor of a GPU copied to pinned memory of the host, beside what the GPU computes: no call
/// here waits for the device.
///
/// Copies out run on a stream of their own, one a device, behind what the current stream has done
/// so far. Copies back run on the current stream, behind the copy out.
///
/// **Memory of the source.** Where nobody but the caller's argument holds the tensor, its memory
/// shall be free for the next kernels of the current stream. Leaving that to the allocator
/// (recordStream) would keep each tensor until the host sees that its copy is done; a host that
/// runs ahead of the device sees it for none, and no plan of the memory would hold. So tensors stay
/// here until the current stream itself waits for their copies, which it does (on the device) as
/// soon as tensors of more than kInFlightBytes, not counting the newest, are on their way: whatever
/// takes the memory then comes after the copy on that stream. So at most kInFlightBytes and one
/// tensor are held longer than a plan says, and computing waits only where it makes tensors faster
/// than they are copied. A tensor that somebody else holds may be written by them at once, so the
/// current stream waits right away.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace antegrad::hooks {

inline constexpr int64_t kInFlightBytes = int64_t{64} << 20;

class PinnedCopy {
 public:
  /// Of a tensor that fills one block of memory, not empty. `alone`: nobody else holds it. Throws
  /// HookError where there is no pinned memory, or while the current stream is captured into a CUDA
  /// graph.
  PinnedCopy(at::Tensor source, bool alone);
  ~PinnedCopy();
  PinnedCopy(const PinnedCopy&) = delete;
  PinnedCopy& operator=(const PinnedCopy&) = delete;

  /// Copies the bytes to a tensor of the same form on a GPU, on its current stream. Throws
  /// HookError while that is captured. On any thread, on several at once.
  void read(const at::Tensor& to) const;

  struct Outgoing;

 private:
  at::Tensor host_;
  std::shared_ptr<Outgoing> outgoing_;
};

}  // namespace antegrad::hooks
