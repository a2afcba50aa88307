#include "compile/guards.h"

#include <antegrad/error.h>

#include <algorithm>
#include <sstream>

#include "torch_compat/tensor_state.h"

namespace antegrad::compiler {
namespace {

template <class A, class B>
std::string changed(const char* what, const A& was, const B& is) {
  std::ostringstream text;
  text << what << " was " << was << ", is " << is;
  return text.str();
}

}  // namespace

TensorGuard::TensorGuard(const at::Tensor& tensor) : defined_(tensor.defined()) {
  if (!defined_) return;
  requires_grad_ = tensor.requires_grad();
  keys_ = tensor.key_set();
  dtype_ = tensor.dtype();
  device_ = tensor.device();
  offset_ = tensor.storage_offset();
  sizes_and_strides_.append(tensor.sizes().begin(), tensor.sizes().end());
  sizes_and_strides_.append(tensor.strides().begin(), tensor.strides().end());
}

bool TensorGuard::matches(const at::Tensor& tensor) const {
  if (tensor.defined() != defined_) return false;
  if (!defined_) return true;
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  const auto dims = sizes.size();
  return impl->key_set() == keys_ && impl->dtype() == dtype_ && impl->device() == device_ &&
         torch_compat::requires_grad(*impl) == requires_grad_ &&
         impl->storage_offset() == offset_ && 2 * dims == sizes_and_strides_.size() &&
         std::equal(sizes.begin(), sizes.end(), sizes_and_strides_.begin()) &&
         std::equal(strides.begin(), strides.end(), sizes_and_strides_.begin() + dims);
}

std::string TensorGuard::difference(const at::Tensor& tensor) const {
  if (matches(tensor)) return "";
  if (tensor.defined() != defined_) return changed("defined", defined_, tensor.defined());
  const auto dims = sizes_and_strides_.size() / 2;
  const at::IntArrayRef sizes(sizes_and_strides_.data(), dims);
  const at::IntArrayRef strides(sizes_and_strides_.data() + dims, dims);
  if (tensor.dtype() != dtype_) return changed("dtype", dtype_, tensor.dtype());
  if (tensor.device() != device_) return changed("device", device_, tensor.device());
  if (tensor.sizes() != sizes) return changed("sizes", sizes, tensor.sizes());
  if (tensor.strides() != strides) return changed("strides", strides, tensor.strides());
  if (tensor.requires_grad() != requires_grad_) {
    return changed("requires_grad", requires_grad_, tensor.requires_grad());
  }
  if (tensor.storage_offset() != offset_) {
    return changed("storage_offset", offset_, tensor.storage_offset());
  }
  return changed("dispatch keys", keys_, tensor.key_set());
}

GuardSet::GuardSet(const Graph& joint, const std::vector<at::Tensor>& primals,
                   const std::vector<int32_t>& leaf_inputs, const Leaves& arguments,
                   const void* types, std::shared_ptr<const ModuleTree> module)
    : ambient_(Ambient::now()),
      types_(types),
      host_(arguments.host),
      leaf_inputs_(leaf_inputs),
      module_(std::move(module)),
      primal_count_(primals.size()) {
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    arguments_.emplace_back(arguments.tensors[i]);
    const auto first = std::find(leaf_inputs.begin(), leaf_inputs.end(), leaf_inputs[i]);
    first_leaf_.push_back(static_cast<int32_t>(first - leaf_inputs.begin()));
    if (leaf_inputs[i] >= 0 && joint.inputs[static_cast<size_t>(leaf_inputs[i])].mutates_data) {
      written_leaves_.push_back(static_cast<int32_t>(i));
    }
  }
  for (size_t i = 0; i < primals.size(); ++i) {
    const auto primal = static_cast<int32_t>(i);
    const auto& source = joint.inputs[i].source;
    switch (source.kind) {
      case Source::Kind::argument: break;
      case Source::Kind::parameter:
      case Source::Kind::buffer: {
        const auto* slot = module_->find(primals[i]);
        AG_CHECK(slot != nullptr, source.name);
        slots_.push_back({slot->address, primals[i].unsafeGetTensorImpl(),
                          TensorGuard(primals[i]), primal, source.name});
        break;
      }
      case Source::Kind::constant: constants_.push_back({primals[i], primal}); break;
      default:
        anonymous_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(
                                  primals[i].getIntrusivePtr()),
                              TensorGuard(primals[i]), primal});
    }
  }
}

bool GuardSet::arguments_hold(const Leaves& arguments, std::string* why) const {
  if (arguments.tensors.size() != arguments_.size()) {
    if (why != nullptr) {
      *why = changed("the number of tensor arguments", arguments_.size(),
                     arguments.tensors.size());
    }
    return false;
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const auto& tensor = arguments.tensors[i];
    if (!arguments_[i].matches(tensor)) {
      if (why != nullptr) {
        *why = "argument " + std::to_string(i) + ": " + arguments_[i].difference(tensor);
      }
      return false;
    }
    const auto first = static_cast<size_t>(first_leaf_[i]);
    if (leaf_inputs_[i] >= 0 && first != i && !arguments.tensors[first].is_same(tensor)) {
      if (why != nullptr) {
        *why = "arguments " + std::to_string(first) + " and " + std::to_string(i) +
               " were the same tensor";
      }
      return false;
    }
  }
  for (const auto written : written_leaves_) {
    const auto& target = arguments.tensors[static_cast<size_t>(written)];
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const auto& other = arguments.tensors[i];
      if (!other.defined() || leaf_inputs_[i] == leaf_inputs_[static_cast<size_t>(written)]) {
        continue;
      }
      if (!other.is_alias_of(target)) continue;
      if (why != nullptr) {
        *why = "argument " + std::to_string(written) + ", which is written, now shares memory "
               "with argument " + std::to_string(i);
      }
      return false;
    }
  }
  return true;
}

bool GuardSet::lifted_hold(std::string* why) const {
  if (module_ && !module_->holds(why)) return false;
  for (const auto& guard : slots_) {
    if (guard.slot->unsafeGetTensorImpl() == guard.impl && guard.meta.matches(*guard.slot)) {
      continue;
    }
    if (why != nullptr) {
      const bool same = guard.slot->unsafeGetTensorImpl() == guard.impl;
      *why = guard.name + ": " +
             (same ? guard.meta.difference(*guard.slot) : "the slot holds another tensor");
    }
    return false;
  }
  for (const auto& guard : anonymous_) {
    const auto impl = guard.tensor.lock();
    if (!impl) {
      if (why != nullptr) {
        *why = "a tensor that the callable held is gone; pass it as an argument, or keep it in a "
               "module";
      }
      return false;
    }
    const at::Tensor tensor(impl);
    if (guard.meta.matches(tensor)) continue;
    if (why != nullptr) {
      *why = "a tensor that the callable holds: " + guard.meta.difference(tensor);
    }
    return false;
  }
  return true;
}

bool GuardSet::holds(const Leaves& arguments, const void* types, std::string* why) const {
  if (types != types_) {
    if (why != nullptr) *why = "the types of the arguments differ";
    return false;
  }
  if (const auto now = Ambient::now(); !(now == ambient_)) {
    if (why != nullptr) *why = ambient_.difference(now);
    return false;
  }
  if (arguments.host != host_) {
    if (why != nullptr) *why = "host values among the arguments differ";
    return false;
  }
  return arguments_hold(arguments, why) && lifted_hold(why);
}

std::vector<at::Tensor> GuardSet::primals(const Leaves& arguments) const {
  std::vector<at::Tensor> primals(primal_count_);
  for (size_t i = 0; i < leaf_inputs_.size(); ++i) {
    if (leaf_inputs_[i] >= 0) primals[static_cast<size_t>(leaf_inputs_[i])] = arguments.tensors[i];
  }
  for (const auto& guard : slots_) primals[static_cast<size_t>(guard.primal)] = *guard.slot;
  for (const auto& guard : anonymous_) {
    primals[static_cast<size_t>(guard.primal)] = at::Tensor(guard.tensor.lock());
  }
  for (const auto& constant : constants_) {
    primals[static_cast<size_t>(constant.primal)] = constant.tensor;
  }
  return primals;
}

}  // namespace antegrad::compiler
