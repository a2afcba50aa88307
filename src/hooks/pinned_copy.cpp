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

// The allocator reuses the memory only after the work of the stream.
void release_after(const c10::Stream& stream, const at::Tensor& tensor) {
  const c10::impl::VirtualGuardImpl guard(stream.device_type());
  guard.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
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
    auto outgoing = std::make_shared<Outgoing>(std::move(source), side_stream(out_, device));
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

  // The stream on which copies back to this device run ahead, after all that the current stream did
  // so far and after the copy to the host.
  c10::Stream stream_back(c10::Device device, const Outgoing& outgoing) {
    const std::lock_guard lock(mutex_);
    const auto stream = side_stream(back_, device);
    c10::Event free(device.type());
    free.record(current_stream(device));
    free.block(stream);
    outgoing.done.block(stream);
    return stream;
  }

  // Nothing will read the copy. The stream that produced the tensor may belong to other work by
  // now, so the allocator waits before it reuses the memory, not the stream.
  void drop(Outgoing& outgoing) {
    const std::lock_guard lock(mutex_);
    if (!outgoing.source.defined()) return;
    release_after(outgoing.stream, outgoing.source);
    outgoing.source.reset();
  }

 private:
  using Queue = std::deque<std::shared_ptr<Outgoing>>;
  using Streams = std::unordered_map<c10::Device, c10::Stream>;

  static c10::Stream side_stream(Streams& streams, c10::Device device) {
    auto it = streams.find(device);
    if (it == streams.end()) {
      const c10::impl::VirtualGuardImpl guard(device.type());
      it = streams.emplace(device, guard.getStreamFromGlobalPool(device)).first;
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
  Streams out_, back_;
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

PinnedCopy::~PinnedCopy() {
  for (const auto& incoming : incoming_) release_after(incoming.stream, incoming.to);
  InFlight::instance().drop(*outgoing_);
}

void PinnedCopy::read(const at::Tensor& to) const {
  const c10::DeviceGuard guard(to.device());
  require_no_capture(to.device());
  InFlight::instance().arrive(current_stream(to.device()), outgoing_);
  bytes_of(to).copy_(host_, /*non_blocking=*/true);
}

void PinnedCopy::start(const at::Tensor& to) const {
  const c10::DeviceGuard guard(to.device());
  require_no_capture(to.device());
  const auto stream = InFlight::instance().stream_back(to.device(), *outgoing_);
  Incoming incoming{to, stream, c10::Event(to.device().type())};
  {
    const c10::StreamGuard on_side(stream);
    bytes_of(to).copy_(host_, /*non_blocking=*/true);
  }
  incoming.done.record(stream);
  const std::lock_guard lock(mutex_);
  incoming_.push_back(std::move(incoming));
}

void PinnedCopy::wait(const at::Tensor& to) const {
  const c10::DeviceGuard guard(to.device());
  require_no_capture(to.device());
  const auto stream = current_stream(to.device());
  const std::lock_guard lock(mutex_);
  const auto here = std::ranges::find_if(
      incoming_, [&](const Incoming& incoming) { return incoming.to.is_same(to); });
  AG_CHECK(here != incoming_.end(), "a copy that was started");
  here->done.block(stream);
  InFlight::instance().arrive(stream, outgoing_);
  incoming_.erase(here);
}

}  // namespace antegrad::hooks
