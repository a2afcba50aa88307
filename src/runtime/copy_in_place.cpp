#include "runtime/copy_in_place.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>

namespace antegrad::runtime {

at::Tensor copy_in_place(const at::Tensor& tensor) {
  const bool plain = tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense();
  if (plain || at::has_internal_overlap(tensor) != at::MemOverlap::No) return tensor.clone();
  const auto elements = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                                         /*itemsize=*/1, tensor.storage_offset());
  const auto memory = at::empty({static_cast<int64_t>(elements)}, tensor.options());
  auto copy = memory.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  copy.copy_(tensor);
  return copy;
}

}  // namespace antegrad::runtime
