#include "capture/stand_in.h"

#include <ATen/FunctionalTensorWrapper.h>

#include "torch_compat/keys.h"

namespace antegrad::capture {
namespace {
std::atomic<int64_t> live{0};
}

void CaptureLife::enter(StandIn* stand_in) {
  const std::lock_guard lock(mutex_);
  stand_in->older_ = newest_;
  if (newest_ != nullptr) newest_->newer_ = stand_in;
  newest_ = stand_in;
}

void CaptureLife::leave(StandIn* stand_in) {
  const std::lock_guard lock(mutex_);
  if (stand_in->older_ != nullptr) stand_in->older_->newer_ = stand_in->newer_;
  (stand_in->newer_ != nullptr ? stand_in->newer_->older_ : newest_) = stand_in->older_;
  if (newest_ == nullptr) none_.notify_all();
}

void CaptureLife::wait_until_none(std::chrono::milliseconds patience) const {
  std::unique_lock lock(mutex_);
  none_.wait_for(lock, patience, [&] { return newest_ == nullptr; });
}

std::vector<ValueId> CaptureLife::alive() const {
  const std::lock_guard lock(mutex_);
  std::vector<ValueId> values;
  for (const auto* s = newest_; s != nullptr; s = s->older_) values.push_back(s->value());
  return values;
}

StandIn::StandIn(const torch_compat::TensorMetadata& metadata, ValueId value,
                 std::shared_ptr<CaptureLife> life)
    : TensorImpl(torch_compat::stand_in_keys(metadata.device),
                 c10::scalarTypeToTypeMeta(metadata.dtype), metadata.device),
      value_(value),
      life_(std::move(life)) {
  set_sizes_and_strides(metadata.sizes, metadata.strides, metadata.offset);
  set_storage_access_should_throw();
  live.fetch_add(1, std::memory_order_relaxed);
  life_->enter(this);
}

StandIn::~StandIn() {
  live.fetch_sub(1, std::memory_order_relaxed);
  life_->leave(this);
}

c10::intrusive_ptr<StandIn> StandIn::copy() const {
  return c10::make_intrusive<StandIn>(torch_compat::TensorMetadata::of(*this), value_, life_);
}

c10::intrusive_ptr<c10::TensorImpl> StandIn::shallow_copy_and_detach(
    const c10::VariableVersion& version, bool allow_metadata_change) const {
  auto result = copy();
  if (!result->is_inference()) result->set_version_counter(version);
  result->set_allow_tensor_metadata_change(allow_metadata_change);
  return result;
}

c10::intrusive_ptr<c10::TensorImpl> StandIn::shallow_copy_and_detach(
    c10::VariableVersion&& version, bool allow_metadata_change) const {
  auto result = copy();
  if (!result->is_inference()) result->set_version_counter(std::move(version));
  result->set_allow_tensor_metadata_change(allow_metadata_change);
  return result;
}

const StandIn* as_stand_in(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (!impl->key_set().has(torch_compat::record_key)) return nullptr;
  return dynamic_cast<const StandIn*>(impl);
}

const StandIn* inside_wrapper(const at::Tensor& tensor) {
  if (!tensor.defined() || !at::functionalization::impl::isFunctionalTensor(tensor)) return nullptr;
  return as_stand_in(at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->value());
}

int64_t live_stand_ins() { return live.load(std::memory_order_relaxed); }

}  // namespace antegrad::capture
