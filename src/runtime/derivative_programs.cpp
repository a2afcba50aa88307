#include "runtime/derivative_programs.h"

#include "runtime/executable.h"
#include "runtime/fork_gate.h"

namespace antegrad::runtime {
namespace {

// Strides and sizes of tangents may differ each time.
constexpr size_t kMostForms = 16;

}  // namespace

DerivativePrograms::Tangent DerivativePrograms::described(const at::Tensor& tangent) {
  if (!tangent.defined()) return {.metadata = {.defined = false}};
  const bool requires_grad = tangent.requires_grad();
  return {torch_compat::TensorMetadata::of(tangent), tangent.key_set(), requires_grad,
          requires_grad && tangent.is_leaf()};
}

std::shared_ptr<const DerivativeProgram> DerivativePrograms::find(const Key& key) const {
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, program] : programs_) {
    if (present == key) return program;
  }
  return nullptr;
}

std::shared_ptr<const DerivativeProgram> DerivativePrograms::get(const DerivativePass& pass) const {
  Key key{.tangents = {}, .wanted = pass.wanted, .autocast = pass.autocast};
  for (const auto& tangent : pass.tangents) key.tangents.push_back(described(tangent));
  if (auto program = find(key)) return program;
  // Without the lock: the source runs the callable, which may wait for other threads.
  auto made = std::make_shared<const DerivativeProgram>(source_(pass));
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, other] : programs_) {
    if (present == key) return other;  // another thread was faster
  }
  // What a graph holds of those that go stays alive.
  if (programs_.size() == kMostForms) programs_.erase(programs_.begin());
  return programs_.emplace_back(std::move(key), std::move(made)).second;
}

int64_t DerivativePrograms::bytes() const {
  const ForkSafeLock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [key, program] : programs_) bytes += program->executable->bytes();
  return bytes;
}

}  // namespace antegrad::runtime
