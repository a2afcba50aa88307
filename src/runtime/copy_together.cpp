#include "runtime/copy_together.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_foreach_copy.h>

#include <algorithm>
#include <utility>

namespace antegrad::runtime {
namespace {

// Whether the bytes are copied as they are.
bool copies_bytes(const at::Tensor& target, const at::Tensor& source) {
  const bool lazy = target.is_conj() || target.is_neg() || source.is_conj() || source.is_neg();
  return !lazy && target.scalar_type() == source.scalar_type() &&
         target.device() == source.device();
}

// Tensors that one call copies by few kernels.
struct Batch {
  std::vector<at::Tensor> targets, sources;
  bool takes(const at::Tensor& target) const {
    return targets[0].scalar_type() == target.scalar_type() &&
           targets[0].device() == target.device();
  }
};

// On a GPU the operator counts the write, even below autograd.
void copy_without_versions(const Batch& batch) {
  std::vector<std::pair<c10::VariableVersion, uint32_t>> versions;
  for (const auto& target : batch.targets) {
    const auto& counter = target.unsafeGetTensorImpl()->version_counter();
    if (counter.enabled()) versions.emplace_back(counter, counter.current_version());
  }
  at::_foreach_copy_(batch.targets, batch.sources);
  for (auto& [counter, version] : versions) counter.set_version(version);
}

}  // namespace

void copy_together(const std::vector<at::Tensor>& targets, const std::vector<at::Tensor>& sources) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<Batch> batches;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!copies_bytes(targets[i], sources[i])) {
      targets[i].copy_(sources[i]);
      continue;
    }
    auto batch = std::find_if(batches.begin(), batches.end(),
                              [&](const Batch& known) { return known.takes(targets[i]); });
    if (batch == batches.end()) batch = batches.emplace(batches.end());
    batch->targets.push_back(targets[i]);
    batch->sources.push_back(sources[i]);
  }
  for (const auto& batch : batches) {
    if (batch.targets.size() == 1) {
      batch.targets[0].copy_(batch.sources[0]);
    } else {
      copy_without_versions(batch);
    }
  }
}

}  // namespace antegrad::runtime
