#include "runtime/twin_call.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <antegrad/error.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace antegrad::runtime {
namespace {

struct Copy {
  at::Tensor original;
  at::Tensor written;
};

class Copies {
 public:
  // Makes the copy on first sight; a tensor that is written twice has one.
  const at::Tensor& of(const at::Tensor& original) {
    if (const auto* known = find(original)) return *known;
    auto copy = at::empty_strided(original.sizes(), original.strides(), original.options());
    copy.copy_(original);
    return copies_.emplace_back(Copy{original, std::move(copy)}).written;
  }
  // Arguments that are read only see the write when they are the same tensor, as in eager.
  at::Tensor replaced(const at::Tensor& tensor) const {
    const auto* known = tensor.defined() ? find(tensor) : nullptr;
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

template <class Map>
c10::IValue map_tensors(const c10::IValue& value, const Map& map) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const auto& t : value.toTensorVector()) list.push_back(map(t));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> t : value.toOptionalTensorList()) {
      list.push_back(t ? std::optional(map(*t)) : t);
    }
    return list;
  }
  return value;
}

}  // namespace

void call_twin(const ops::OpEntry& twin, torch::jit::Stack& stack) {
  Copies copies;
  std::vector<at::Tensor> written;
  for (const auto i : ops::written_arguments(twin, stack)) {
    map_tensors(stack[i], [&](const at::Tensor& t) {
      if (t.defined()) written.push_back(copies.of(t));
      return t;
    });
  }
  for (auto& value : stack) {
    value = map_tensors(value, [&](const at::Tensor& t) { return copies.replaced(t); });
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
