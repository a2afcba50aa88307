#pragma once

/// \file
/// A copy of a GPU tensor in pinned host memory, made while the GPU computes: no call here waits
/// for the device.
///
/// Copies to the host run on a separate stream per device, after the current work of the current
/// stream. Copies back run on the current stream, after the copy to the host, or on a stream of
/// their own, ahead of their use.
///
/// **Memory of the source.** If only the caller's argument holds the tensor, its memory should be
/// available to the next kernels of the current stream. The allocator (recordStream) would keep
/// each tensor until the host sees that its copy is done. A host that runs ahead of the device does
/// not see this for any tensor, and no memory plan would hold. Instead, tensors stay here until the
/// current stream itself waits for their copies. It does so (on the device) as soon as tensors of
/// more than kInFlightBytes, not counting the newest, are being copied. Whatever uses the memory
/// then runs after the copy on that stream. At most kInFlightBytes and one tensor are thus held
/// longer than a plan assumes, and computation waits only if it produces tensors faster than they
/// are copied. Another owner of a tensor may write to it at once, so in that case the current
/// stream waits immediately.
///
/// **Copies ahead.** A copy back that is started ahead of its use runs on a third stream, after
/// what the current stream did so far, since that may still use the memory. The tensor stays here
/// until the current stream waits for it, so its memory is reused after the copy only.

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "torch_compat/scope.h"

namespace antegrad::hooks {

inline constexpr int64_t kInFlightBytes = int64_t{64} << 20;

class PinnedCopy : torch_compat::Scope {
 public:
  /// Copies a tensor that fills one block of memory and is not empty. `alone`: it has no other
  /// owner. Throws HookError if there is no pinned memory, or while the current stream is captured
  /// into a CUDA graph.
  PinnedCopy(at::Tensor source, bool alone);
  ~PinnedCopy();

  /// Copies the bytes to a tensor with the same metadata on a GPU, on its current stream. Throws
  /// HookError while that stream is captured. May be called on any thread, also concurrently.
  void read(const at::Tensor& to) const;

  /// The same in two parts: begins the copy, and makes the current stream wait for it. Between the
  /// two the tensor must not be used. Each start has one wait, or the copy back is never read.
  void start(const at::Tensor& to) const;
  void wait(const at::Tensor& to) const;

  struct Outgoing;

 private:
  /// A copy back that nothing waits for yet.
  struct Incoming {
    at::Tensor to;
    c10::Stream stream;
    c10::Event done;
  };

  at::Tensor host_;
  std::shared_ptr<Outgoing> outgoing_;
  mutable std::mutex mutex_;  // guards `incoming_`
  mutable std::vector<Incoming> incoming_;
};

}  // namespace antegrad::hooks
