#include "compile/kernel_verdicts.h"

#include <utility>

#include "kernels/build.h"
#include "runtime/fork_gate.h"

namespace antegrad::compiler {

using runtime::ForkSafeLock;

KernelVerdicts& KernelVerdicts::of_process() {
  static auto* const verdicts = new KernelVerdicts();  // outlives all threads
  return *verdicts;
}

std::string KernelVerdicts::against(const Hash128& key) const {
  const ForkSafeLock lock(mutex_);
  const auto found = refused_.find(key);
  return found == refused_.end() ? "" : found->second;
}

void KernelVerdicts::refuse(const Hash128& key, std::string reason) {
  const ForkSafeLock lock(mutex_);
  refused_.emplace(key, std::move(reason));
}

bool KernelVerdicts::proven(const Hash128& key) {
  const ForkSafeLock lock(mutex_);
  return proofs().proven(key);
}

void KernelVerdicts::note_proof(const Hash128& key) {
  const ForkSafeLock lock(mutex_);
  proofs().add(key);
}

bool KernelVerdicts::disproven(const Hash128& key) {
  const ForkSafeLock lock(mutex_);
  return proofs().disproven(key);
}

void KernelVerdicts::note_disproof(const Hash128& key) {
  const ForkSafeLock lock(mutex_);
  proofs().add_disproof(key);
}

std::optional<kernels::RunTimes> KernelVerdicts::times(const Hash128& key) {
  const ForkSafeLock lock(mutex_);
  return proofs().times(key);
}

void KernelVerdicts::note_times(const Hash128& key, const kernels::RunTimes& times) {
  const ForkSafeLock lock(mutex_);
  proofs().add(key, times);
}

void KernelVerdicts::take(const std::vector<std::string>& facts, bool keeps) {
  const ForkSafeLock lock(mutex_);
  proofs().take(facts, keeps);
}

std::vector<std::string> KernelVerdicts::facts() {
  const ForkSafeLock lock(mutex_);
  return proofs().facts();
}

void KernelVerdicts::forget() {
  const ForkSafeLock lock(mutex_);
  refused_.clear();
  proofs_.emplace("");
}

void KernelVerdicts::invent(std::optional<kernels::RunTimes> times) {
  forget();
  const ForkSafeLock lock(mutex_);
  invented_ = times;
}

std::optional<kernels::RunTimes> KernelVerdicts::invented() const {
  const ForkSafeLock lock(mutex_);
  return invented_;
}

kernels::Proofs& KernelVerdicts::proofs() {
  if (!proofs_) proofs_.emplace(kernels::folder_of({}));
  return *proofs_;
}

}  // namespace antegrad::compiler
