#pragma once

/// \file
/// Stand-ins: tensors with the metadata of real ones (true device, dtype, sizes, strides, offset),
/// the graph value that they represent, and no data.
///
/// Stand-ins live inside functional wrappers during a capture and are gone when it ends. The
/// CaptureLife of the capture lists them, and outlives the tracer for those that escaped.

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/graph.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::capture {

class Tracer;

class StandIn;

/// State that a capture shares with its stand-ins: the list of live ones, and whether the capture
/// still runs.
class CaptureLife {
 public:
  std::atomic<Tracer*> tracer{nullptr};  ///< null when the capture is over

  /// Values of the live stand-ins, newest first.
  std::vector<ValueId> alive() const;
  /// Returns if none is alive, or after `patience`.
  void wait_until_none(std::chrono::milliseconds patience) const;

 private:
  friend class StandIn;
  void enter(StandIn* stand_in);
  void leave(StandIn* stand_in);

  mutable std::mutex mutex_;  // stand-ins may die on other threads
  mutable std::condition_variable none_;
  StandIn* newest_ = nullptr;
};

class StandIn final : public c10::TensorImpl {
 public:
  StandIn(const torch_compat::TensorMetadata& metadata, ValueId value,
          std::shared_ptr<CaptureLife> life);
  ~StandIn() override;

  ValueId value() const { return value_; }
  /// The capture that this stand-in belongs to; null after it has ended.
  Tracer* tracer() const { return life_->tracer.load(std::memory_order_acquire); }

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_metadata_change) const override;

 private:
  c10::intrusive_ptr<StandIn> copy() const;

  friend class CaptureLife;

  ValueId value_;
  std::shared_ptr<CaptureLife> life_;
  StandIn* newer_ = nullptr;  // linked list of live stand-ins
  StandIn* older_ = nullptr;
};

/// The stand-in behind a tensor, or null. Checks the key set first, which is fast for real tensors.
const StandIn* as_stand_in(const at::Tensor& tensor);
/// The stand-in inside a functional wrapper (not synced), or null.
const StandIn* inside_wrapper(const at::Tensor& tensor);

/// Number of live stand-ins in this process, over all captures; 0 if no capture runs.
int64_t live_stand_ins();

}  // namespace antegrad::capture
