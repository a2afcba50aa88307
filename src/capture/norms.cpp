#include "capture/norms.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "capture/placeholder.h"
#include "capture/tracer.h"

namespace antegrad::capture {
namespace {

class Norms {
 public:
  static Norms& of_process() {
    static auto* const norms = new Norms();
    return *norms;
  }

  void set(const at::Tensor& running_mean, std::shared_ptr<const BatchNorm> norm) {
    const std::lock_guard lock(mutex_);
    std::erase_if(by_tensor_, [](const auto& entry) { return entry.second.tensor.expired(); });
    auto* const impl = running_mean.unsafeGetTensorImpl();
    by_tensor_.erase(impl);
    if (!norm) return;
    by_tensor_.emplace(
        impl, Entry{c10::weak_intrusive_ptr<c10::TensorImpl>(running_mean.getIntrusivePtr()),
                    std::move(norm)});
  }

  std::shared_ptr<const BatchNorm> find(const at::Tensor& running_mean) {
    const std::lock_guard lock(mutex_);
    const auto known = by_tensor_.find(running_mean.unsafeGetTensorImpl());
    return known == by_tensor_.end() ? nullptr : known->second.norm;
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  // its address is not used again meanwhile
    std::shared_ptr<const BatchNorm> norm;
  };
  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, Entry> by_tensor_;
};

}  // namespace

void compute_norm_with(const at::Tensor& running_mean, std::shared_ptr<const BatchNorm> norm) {
  Norms::of_process().set(running_mean, std::move(norm));
  note_mark();
}

Saved::Saved() : before_(std::exchange(Tracer::current()->tag, Recompute::must_save)) {}
Saved::~Saved() { Tracer::current()->tag = before_; }

std::shared_ptr<const BatchNorm> norm_with(const at::Tensor& running_mean) {
  return Norms::of_process().find(running_mean);
}

}  // namespace antegrad::capture
