#include "compile/guards.h"

#include <antegrad/error.h>

#include <algorithm>

#include "compile/changed.h"
#include "compile/host_values.h"

namespace antegrad::compiler {

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
        slots_.add(slot->address, primal, source.name);
        break;
      }
      case Source::Kind::constant: constants_.push_back({primals[i], primal}); break;
      default:
        anonymous_.push_back(
            {c10::weak_intrusive_ptr<c10::TensorImpl>(primals[i].getIntrusivePtr()),
             TensorGuard(primals[i]), primal});
    }
  }
}

bool GuardSet::arguments_hold(const Leaves& arguments, std::string* why) const {
  if (arguments.tensors.size() != arguments_.size()) {
    if (why != nullptr) {
      *why = changed("the number of tensor arguments", arguments_.size(), arguments.tensors.size());
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
        *why = "argument " + std::to_string(written) +
               ", which is written, now shares memory "
               "with argument " +
               std::to_string(i);
      }
      return false;
    }
  }
  return true;
}

bool GuardSet::lifted_hold(std::string* why) const {
  if (module_ && !module_->holds(why)) return false;
  if (!slots_.hold(why)) return false;
  for (const auto& guard : anonymous_) {
    const auto impl = guard.tensor.lock();
    if (!impl) {
      if (why != nullptr) {
        *why =
            "a tensor that the callable held is gone; pass it as an argument, or keep it in a "
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
  if (!same_host(arguments.host, host_)) {
    if (why != nullptr) *why = host_difference("the arguments", host_, arguments.host);
    return false;
  }
  return arguments_hold(arguments, why) && lifted_hold(why);
}

std::vector<at::Tensor> GuardSet::primals(const Leaves& arguments) const {
  std::vector<at::Tensor> primals(primal_count_);
  for (size_t i = 0; i < leaf_inputs_.size(); ++i) {
    if (leaf_inputs_[i] >= 0) primals[static_cast<size_t>(leaf_inputs_[i])] = arguments.tensors[i];
  }
  slots_.collect(primals);
  for (const auto& guard : anonymous_) {
    primals[static_cast<size_t>(guard.primal)] = at::Tensor(guard.tensor.lock());
  }
  for (const auto& constant : constants_) {
    primals[static_cast<size_t>(constant.primal)] = constant.tensor;
  }
  return primals;
}

}  // namespace antegrad::compiler
