#include "capture/untouched.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <antegrad/error.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_metadata.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

// Other threads may run forward and backward passes of the same model meanwhile, so another `.grad`
// tensor or a new version of a buffer is not our change. A missing gradient, or a stand-in, would
// be.
at::Tensor grad_of(const at::Tensor& tensor) {
  const torch_compat::GradientLock lock(tensor);
  return tensor.unsafeGetTensorImpl()->grad();
}

bool grad_changed(const at::Tensor& before, const at::Tensor& now) {
  if (!now.defined()) return before.defined();
  return now.key_set().has(c10::DispatchKey::Functionalize);
}

[[noreturn]] void refuse_new_seed() {
  throw CaptureError("manual_seed", {"a callable that does not change the seed",
                                     "manual_seed() inside the compiled callable",
                                     "call it before the compiled callable"});
}

// Whether nothing was drawn from the CPU's default generator since it was seeded.
bool is_fresh(const at::Generator& generator) {
  const auto engine = at::check_generator<at::CPUGeneratorImpl>(generator)->engine().data();
  return engine.left_ == 1 && engine.next_ == 0;
}

// Of all captures.
struct AllFixedStorages {
  std::mutex mutex;
  std::unordered_map<const c10::StorageImpl*, int32_t> captures;
};
AllFixedStorages& fixed_storages() {
  static auto* const fixed = new AllFixedStorages();
  return *fixed;
}

}  // namespace

Snapshot::Snapshot(const at::Tensor& tensor)
    : tensor_(tensor),
      data_(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
          c10::VariableVersion(uint32_t{0}), /*allow_tensor_metadata_change=*/true)),
      grad_(grad_of(tensor)),
      hooks_(torch_compat::hook_count(tensor)),
      requires_grad_(tensor.requires_grad()) {}

const char* Snapshot::changed() const {
  const auto* impl = tensor_.unsafeGetTensorImpl();
  if (tensor_.requires_grad() != requires_grad_) return "requires_grad";
  if (grad_changed(grad_, grad_of(tensor_))) return ".grad";
  if (impl->key_set() != data_.key_set() || !impl->has_storage() ||
      !impl->storage().is_alias_of(data_.storage()) ||
      !torch_compat::TensorMetadata::of(data_).matches(tensor_)) {
    return "data (set_data or resize_)";
  }
  if (torch_compat::hook_count(tensor_) != hooks_) return "hooks";
  return nullptr;
}

void Snapshot::restore() const {
  auto* impl = tensor_.unsafeGetTensorImpl();
  if (tensor_.requires_grad() != requires_grad_) tensor_.set_requires_grad(requires_grad_);
  {
    const torch_compat::GradientLock lock(tensor_);
    if (grad_changed(grad_, impl->grad())) impl->mutable_grad() = grad_;
  }
  if (impl->key_set() != data_.key_set() || !impl->has_storage() ||
      !impl->storage().is_alias_of(data_.storage())) {
    impl->shallow_copy_from(data_.getIntrusivePtr());
  }
}

FixedStorages::~FixedStorages() {
  auto& [mutex, captures] = fixed_storages();
  const std::lock_guard lock(mutex);
  for (const auto& storage : storages_) {
    auto* impl = storage.unsafeGetStorageImpl();
    const auto fixed = captures.find(impl);
    if (--fixed->second > 0) continue;
    captures.erase(fixed);
    impl->set_resizable(true);
  }
}

void FixedStorages::add(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const auto& storage = tensor.storage();
  auto* impl = storage.unsafeGetStorageImpl();
  auto& [mutex, captures] = fixed_storages();
  const std::lock_guard lock(mutex);
  const auto fixed = captures.find(impl);
  if (fixed != captures.end()) {
    ++fixed->second;
  } else if (impl->resizable()) {
    impl->set_resizable(false);
    captures.emplace(impl, 1);
  } else {
    return;
  }
  storages_.push_back(storage);
}

SeedSnapshot::SeedSnapshot() : generator_(at::globalContext().defaultGenerator(at::kCPU)) {
  const std::lock_guard lock(generator_.mutex());
  seed_ = generator_.current_seed();
  fresh_ = is_fresh(generator_);
  state_ = generator_.get_state();
}

bool SeedSnapshot::changed() const {
  return generator_.current_seed() != seed_ || (is_fresh(generator_) && !fresh_);
}

void SeedSnapshot::require_unchanged() const {
  {
    const std::lock_guard lock(generator_.mutex());
    if (!changed()) return;
  }
  refuse_new_seed();
}

void SeedSnapshot::restore() {
  const std::lock_guard lock(generator_.mutex());
  if (changed()) generator_.set_state(state_);
}

GeneratorUnderTest::GeneratorUnderTest(at::Generator generator) : generator_(std::move(generator)) {
  const std::lock_guard lock(generator_.mutex());
  state_ = generator_.get_state();
  seed_ = generator_.current_seed() + 1;
  generator_.set_current_seed(seed_);
}

GeneratorUnderTest::~GeneratorUnderTest() {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(state_);
}

void GeneratorUnderTest::require_unchanged() const {
  {
    const std::lock_guard lock(generator_.mutex());
    if (generator_.current_seed() == seed_) return;
  }
  refuse_new_seed();
}

}  // namespace antegrad::capture
