#include "hooks/pinned_copy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <antegrad/error.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "torch_compat/stream_capture.h"

namespace antegrad::hooks {

/// A copy that may still be running. The common mutex guards `source`.
struct PinnedCopy::Outgoing {
  Outgoing(at::Tensor tensor, c10::Stream side)
      : source(std::move(tensor)), bytes(source.nbytes()), stream(side), done(side.device_type()) {}

  at::Tensor source;  // undefined once its memory may be reused
  const size_t bytes;
  const c10::Stream stream;  // the stream of the copy
  c10::Event done;           // recorded once, before other threads see it
};

namespace {

using Outgoing = PinnedCopy::Outgoing;

at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), {static_cast<int64_t>(tensor.nbytes())},
                       tensor.options().dtype(at::kByte));
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// All running copies, by the stream that produced the tensor.
class InFlight {
 public:
  static InFlight& instance() {
    static auto* const all = new InFlight();  // immortal: handles die during static destruction
    return *all;
  }

  // Copies on the side stream of the source's device run in the order of calls.
  std::shared_ptr<Outgoing> start(at::Tensor source, const at::Tensor& host, bool alone) {
    const auto device = source.device();
    const auto stream = current_stream(device);
    const std::lock_guard lock(mutex_);
    auto outgoing = std::make_shared<Outgoing>(std::move(source), side_stream(device));
    c10::Event made(device.type());
    made.record(stream);
    made.block(outgoing->stream);
    {
      const c10::StreamGuard on_side(outgoing->stream);
      host.copy_(bytes_of(outgoing->source), /*non_blocking=*/true);
    }
    outgoing->done.record(outgoing->stream);
    if (alone) {
      make_room(stream);
      queues_[stream].push_back(outgoing);
    } else {
      outgoing->done.block(stream);
      outgoing->source.reset();
    }
    return outgoing;
  }

  // Makes the stream wait for a copy, and thereby for earlier copies of the same stream.
  void arrive(const c10::Stream& stream, const std::shared_ptr<Outgoing>& outgoing) {
    outgoing->done.block(stream);
    const std::lock_guard lock(mutex_);
    auto& queue = queues_[stream];
    const auto here = std::find(queue.begin(), queue.end(), outgoing);
    if (here == queue.end()) return;
    for (auto each = queue.begin(); each <= here; ++each) (*each)->source.reset();
    queue.erase(queue.begin(), here + 1);
  }

  // Nothing will read the copy. The stream that produced the tensor may belong to other work by
  // now, so the allocator waits before it reuses the memory, not the stream.
  void drop(Outgoing& outgoing) {
    const std::lock_guard lock(mutex_);
    if (!outgoing.source.defined()) return;
    const c10::impl::VirtualGuardImpl guard(outgoing.stream.device_type());
    guard.recordDataPtrOnStream(outgoing.source.storage().data_ptr(), outgoing.stream);
    outgoing.source.reset();
  }

 private:
  using Queue = std::deque<std::shared_ptr<Outgoing>>;

  c10::Stream side_stream(c10::Device device) {
    auto it = side_.find(device);
    if (it == side_.end()) {
      const c10::impl::VirtualGuardImpl guard(device.type());
      it = side_.emplace(device, guard.getStreamFromGlobalPool(device)).first;
    }
    return it->second;
  }

  // Makes the stream wait for the oldest copies if there are too many.
  void make_room(const c10::Stream& stream) {
    auto& queue = queues_[stream];
    std::erase_if(queue, [](const auto& each) { return !each->source.defined(); });
    size_t bytes = 0;
    for (const auto& each : queue) bytes += each->bytes;
    for (; bytes > static_cast<size_t>(kInFlightBytes); queue.pop_front()) {
      auto& oldest = *queue.front();
      bytes -= oldest.bytes;
      oldest.done.block(stream);
      oldest.source.reset();
    }
  }

  std::mutex mutex_;
  std::unordered_map<c10::Stream, Queue> queues_;
  std::unordered_map<c10::Device, c10::Stream> side_;
};

at::Tensor pinned(size_t bytes) {
  try {
    return at::empty({static_cast<int64_t>(bytes)},
                     at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  } catch (const c10::Error& error) {
    throw HookError(
        ErrorText{std::to_string(bytes) + " bytes of pinned memory of the host for a saved tensor",
                  error.what_without_backtrace(),
                  "raise min_bytes of offload_to_host so that fewer tensors are offloaded, or "
                  "lower max_bytes"});
  }
}

void require_no_capture(c10::Device device) {
  if (!torch_compat::in_stream_capture(device)) return;
  throw HookError(ErrorText{"saved tensors that leave the device outside of CUDA graphs",
                            "a stream that is being captured into one",
                            "capture calls and backward passes without offload_to_host"});
}

}  // namespace

PinnedCopy::PinnedCopy(at::Tensor source, bool alone) {
  const auto device = source.device();
  const c10::DeviceGuard guard(device);
  require_no_capture(device);
  host_ = pinned(source.nbytes());
  outgoing_ = InFlight::instance().start(std::move(source), host_, alone);
}

PinnedCopy::~PinnedCopy() { InFlight::instance().drop(*outgoing_); }

void PinnedCopy::read(const at::Tensor& to) const {
  const c10::DeviceGuard guard(to.device());
  require_no_capture(to.device());
  InFlight::instance().arrive(current_stream(to.device()), outgoing_);
  bytes_of(to).copy_(host_, /*non_blocking=*/true);
}

}  // namespace antegrad::hooks
