#include "runtime/copy_together.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_foreach_copy.h>

#include <algorithm>

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
      at::_foreach_copy_(batch.targets, batch.sources);
    }
  }
}

}  // namespace antegrad::runtime
