#include "runtime/backward_programs.h"

#include "runtime/fork_gate.h"

namespace antegrad::runtime {

BackwardKey usual_key(const CallPlan& plan) {
  BackwardKey key;
  key.form.tangents.resize(plan.tangents.size());
  key.wanted.assign(plan.gradients.size(), true);
  return key;
}

BackwardPrograms::BackwardPrograms(const CallPlan& plan,
                                   std::shared_ptr<const BackwardProgram> usual,
                                   BackwardSource source, AliasCheck aliases)
    : plan_(plan), source_(std::move(source)), aliases_(aliases) {
  if (usual) programs_.emplace_back(usual_key(plan), std::move(usual));
}

size_t BackwardPrograms::count() const {
  const ForkSafeLock lock(mutex_);
  return programs_.size();
}

int64_t BackwardPrograms::bytes() const {
  const ForkSafeLock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [key, program] : programs_) bytes += program->bytes();
  return bytes;
}

bool BackwardPrograms::has(const BackwardKey& key) const { return find(key) != nullptr; }

std::shared_ptr<const BackwardProgram> BackwardPrograms::find(const BackwardKey& key) const {
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, program] : programs_) {
    if (present == key) return program;
  }
  return nullptr;
}

std::shared_ptr<const BackwardProgram> BackwardPrograms::get(const BackwardKey& key) const {
  if (auto program = find(key)) return program;
  // Without the lock: the source may run the callable, which may wait for other threads.
  const auto [graph, tables, forward_values, kernels] = source_(key);
  auto program = backward_program(plan_, graph, tables, forward_values, aliases_, nullptr, kernels);
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, other] : programs_) {
    if (present == key) return other;  // another thread was faster
  }
  return programs_.emplace_back(key, std::move(program)).second;
}

}  // namespace antegrad::runtime
