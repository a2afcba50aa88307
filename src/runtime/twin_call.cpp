#include "runtime/twin_call.h"

#include <ATen/ops/empty_strided.h>
#include <antegrad/error.h>

#include <algorithm>
#include <vector>

#include "ops/tensors_in.h"

namespace antegrad::runtime {
namespace {

struct Copy {
  at::Tensor original;
  at::Tensor written;
};

class Copies {
 public:
  // Copies a tensor at its first occurrence; a tensor that is written twice has one copy.
  const at::Tensor& of(const at::Tensor& original) {
    if (const auto* known = find(original)) return *known;
    auto copy = at::empty_strided(original.sizes(), original.strides(), original.options());
    copy.copy_(original);
    return copies_.emplace_back(Copy{original, std::move(copy)}).written;
  }
  // A read-only argument sees the write if it is the same tensor, as in eager.
  at::Tensor replaced(const at::Tensor& tensor) const {
    const auto* known = find(tensor);
    return known != nullptr ? *known : tensor;
  }
  void require_kept_sizes(const ops::OpEntry& twin) const {
    for (const auto& [original, written] : copies_) {
      if (written.sizes() == original.sizes() && written.strides() == original.strides()) continue;
      throw MutationError(twin.op.name(),
                          {"written arguments that keep their sizes and strides",
                           "an operator that resized one during the call",
                           "allocate the tensor with its final size before the call"});
    }
  }

 private:
  const at::Tensor* find(const at::Tensor& tensor) const {
    const auto it = std::find_if(copies_.begin(), copies_.end(),
                                 [&](const Copy& copy) { return copy.original.is_same(tensor); });
    return it == copies_.end() ? nullptr : &it->written;
  }
  std::vector<Copy> copies_;
};

}  // namespace

void call_twin(const ops::OpEntry& twin, torch::jit::Stack& stack, uint16_t overwrites) {
  Copies copies;
  std::vector<at::Tensor> written;
  ops::for_each_written(twin, stack, [&](const at::Tensor& t, size_t argument) {
    written.push_back((overwrites >> argument & 1) != 0 ? t : copies.of(t));
  });
  for (auto& value : stack) {
    value = ops::map_tensors(value, [&](const at::Tensor& t) { return copies.replaced(t); });
  }
  twin.handle.callBoxed(stack);
  copies.require_kept_sizes(twin);
  torch::jit::Stack outputs;
  for (size_t r = 0; r < stack.size(); ++r) {
    if (twin.returned_arg[r] < 0) outputs.push_back(std::move(stack[r]));
  }
  for (auto& tensor : written) outputs.emplace_back(std::move(tensor));
  stack = std::move(outputs);
}

}  // namespace antegrad::runtime
