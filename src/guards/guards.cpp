#include "guards/guards.h"

#include <algorithm>
#include <unordered_map>

#include "guards/changed.h"
#include "guards/host_values.h"
#include "torch_compat/autograd_graph.h"

namespace antegrad::guards {

namespace {

// By tensor: the first one with the same storage; -1 for a tensor without storage.
std::vector<int32_t> memory_of(const std::vector<at::Tensor>& tensors) {
  std::unordered_map<const void*, int32_t> first;
  first.reserve(tensors.size());
  std::vector<int32_t> memory;
  memory.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto* storage = tensors[i].defined() ? capture::storage_of(tensors[i]) : nullptr;
    memory.push_back(
        storage == nullptr ? -1 : first.emplace(storage, static_cast<int32_t>(i)).first->second);
  }
  return memory;
}

// Whether a call writes inputs, or resizes their storages.
bool writes(const Graph& joint) {
  return std::ranges::any_of(
             joint.outputs,
             [](const Output& output) { return output.kind == OutputKind::mutated_input; }) ||
         std::ranges::any_of(
             joint.inputs, [](const Input& input) { return input.storage != InputStorage::kept; });
}

}  // namespace

GuardSet::GuardSet(const capture::Captured& captured, const Leaves& arguments, const void* types,
                   std::shared_ptr<const ModuleTree> module, const GuardSet* like)
    : ambient_(Ambient::now()),
      types_(types),
      host_(arguments.host),
      placeholders_(captured.placeholders),
      marks_(capture::marks_made()),
      leaf_inputs_(captured.leaf_inputs),
      numbers_(captured.numbers),
      fixed_values_(numbers_.fixed.size()),
      module_(std::move(module)),
      primal_count_(captured.primals.size()) {
  for (const auto& tensor : arguments.tensors) arguments_.emplace_back(tensor);
  for (size_t i = 0; i < fixed_values_.size(); ++i) {
    if (numbers_.fixed[i]) fixed_values_[i] = ops::read_number(arguments.tensors[i]);
  }
  const auto& primals = captured.primals;
  SlotGuards slots;
  for (size_t i = 0; i < primals.size(); ++i) {
    const auto primal = static_cast<int32_t>(i);
    const auto& source = captured.joint.inputs[i].source;
    if (source.via != Source::Via::itself) {
      const auto& holder = captured.holders[i];
      const auto* slot = module_->find(holder);
      found_.push_back({primal, source.via,
                        source.kind == Source::Kind::argument ? source.index : -1,
                        slot == nullptr ? nullptr : slot->address,
                        c10::weak_intrusive_ptr<c10::TensorImpl>(holder.getIntrusivePtr()),
                        TensorGuard(primals[i])});
      continue;
    }
    switch (source.kind) {
      case Source::Kind::argument: break;
      case Source::Kind::parameter:
      case Source::Kind::buffer: {
        // Other slots with the same tensor must keep it as well.
        for (const auto& slot : module_->slots()) {
          if (!slot.address->is_same(primals[i])) continue;
          slots.add(slot.address, primal, slot.source.name);
        }
        break;
      }
      case Source::Kind::constant: constants_.push_back({primals[i], primal}); break;
      default:
        anonymous_.push_back(
            {c10::weak_intrusive_ptr<c10::TensorImpl>(primals[i].getIntrusivePtr()),
             TensorGuard(primals[i]), primal});
    }
  }
  const bool shared = like != nullptr && *like->slots_ == slots;
  slots_ = shared ? like->slots_ : std::make_shared<const SlotGuards>(std::move(slots));
  if (writes(captured.joint) || !found_.empty()) memory_ = memory_of(primals);
  for (size_t i = 0; i < captured.follows.size(); ++i) {
    if (captured.follows[i] >= 0) views_.emplace_back(static_cast<int32_t>(i), captured.follows[i]);
  }
}

at::Tensor GuardSet::Found::find(const Leaves& arguments) const {
  at::Tensor holder;
  if (leaf >= 0) {
    holder = arguments.tensors[leaf];
  } else if (slot != nullptr) {
    holder = *slot;
  } else if (auto impl = held.lock()) {
    holder = at::Tensor(std::move(impl));
  }
  if (!holder.defined()) return holder;
  if (via == Source::Via::base) return torch_compat::base_or_self(holder);
  return torch_compat::span_of(holder, meta.sizes()[0], meta.offset());
}

bool GuardSet::arguments_hold(const Leaves& arguments, std::string* why) const {
  if (arguments.tensors.size() != arguments_.size()) {
    return misfit(why, [&] {
      return changed("the number of tensor arguments", arguments_.size(), arguments.tensors.size());
    });
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const auto& tensor = arguments.tensors[i];
    if (!arguments_[i].matches(tensor)) {
      return misfit(why, [&] {
        return "argument " + std::to_string(i) + ": " + arguments_[i].difference(tensor);
      });
    }
    if (leaf_inputs_[i] < 0) continue;
    for (size_t j = 0; j < i; ++j) {
      const bool same = arguments.tensors[j].is_same(tensor);
      if (same == (leaf_inputs_[j] == leaf_inputs_[i])) continue;
      return misfit(why, [&] {
        return "arguments " + std::to_string(j) + " and " + std::to_string(i) +
               (same ? " were two tensors, are the same" : " were the same tensor");
      });
    }
  }
  return true;
}

bool GuardSet::numbers_hold(const Leaves& arguments, std::string* why) const {
  auto found = numbers_.misfit(fixed_values_, arguments.tensors);
  return found.empty() || misfit(why, [&] { return std::move(found); });
}

bool GuardSet::lifted_hold(std::string* why) const {
  if (module_ && !module_->holds(why)) return false;
  if (!slots_->hold(why)) return false;
  for (const auto& guard : anonymous_) {
    const auto impl = guard.tensor.lock();
    if (!impl) {
      return misfit(why, [&] {
        return "a tensor that the callable held is gone; pass it as an argument, or keep it in a "
               "module";
      });
    }
    const at::Tensor tensor(impl);
    if (guard.meta.matches(tensor)) continue;
    return misfit(
        why, [&] { return "a tensor that the callable holds: " + guard.meta.difference(tensor); });
  }
  return true;
}

bool GuardSet::found_hold(const Leaves& arguments, std::string* why) const {
  for (const auto& found : found_) {
    const auto tensor = found.find(arguments);
    if (tensor.defined() && (found.via == Source::Via::span || found.meta.matches(tensor))) {
      continue;
    }
    return misfit(why, [&] {
      return tensor.defined() ? "what an argument is a view of: " + found.meta.difference(tensor)
                              : "a tensor that the callable held is gone";
    });
  }
  return true;
}

bool GuardSet::memory_holds(const Leaves& arguments, std::string* why) const {
  if (memory_.empty()) return true;
  const auto now = primals(arguments);
  const bool views = std::all_of(views_.begin(), views_.end(), [&](const auto& pair) {
    return torch_compat::base_or_self(now[pair.first]).is_same(now[pair.second]);
  });
  if (views && memory_of(now) == memory_) return true;
  return misfit(why, [&] { return "which tensors share memory, of which some is written"; });
}

bool GuardSet::state_holds(const Leaves& arguments, const void* types, std::string* why) const {
  if (types != types_) return misfit(why, [&] { return "the types of the arguments differ"; });
  if (const auto now = Ambient::now(); !(now == ambient_)) {
    return misfit(why, [&] { return ambient_.difference(now); });
  }
  if (!same_host(arguments.host, host_)) {
    return misfit(why, [&] { return host_difference("the arguments", host_, arguments.host); });
  }
  if (capture::marks_made() != marks_) {
    return misfit(why, [&] { return "which modules are sharded, replicated or synchronised"; });
  }
  const auto other = std::ranges::find_if_not(placeholders_, &capture::PlaceholderUse::holds);
  if (other == placeholders_.end()) return true;
  return misfit(why, [&] {
    const bool was = other->gradients == capture::Gradients::accumulated;
    return changed("accumulating() of a sharded or replicated module", was, !was);
  });
}

bool GuardSet::holds(const Leaves& arguments, const void* types, std::string* why) const {
  return state_holds(arguments, types, why) && arguments_hold(arguments, why) && lifted_hold(why) &&
         numbers_hold(arguments, why) && found_hold(arguments, why) && memory_holds(arguments, why);
}

bool GuardSet::holds_but_for_sizes(const Leaves& arguments, const void* types) const {
  return state_holds(arguments, types, nullptr) &&
         std::ranges::equal(arguments_, arguments.tensors,
                            [](const TensorGuard& guard, const at::Tensor& tensor) {
                              return guard.matches(tensor, torch_compat::Match::kind);
                            }) &&
         numbers_hold(arguments, nullptr) && lifted_hold(nullptr);
}

std::vector<at::Tensor> GuardSet::primals(const Leaves& arguments) const {
  std::vector<at::Tensor> primals(primal_count_);
  for (size_t i = 0; i < leaf_inputs_.size(); ++i) {
    if (leaf_inputs_[i] >= 0) primals[leaf_inputs_[i]] = arguments.tensors[i];
  }
  slots_->collect(primals);
  for (const auto& guard : anonymous_) primals[guard.primal] = at::Tensor(guard.tensor.lock());
  for (const auto& constant : constants_) primals[constant.primal] = constant.tensor;
  for (const auto& [number, index] : numbers_.primals) {
    primals[index] = ops::wrapped_number(*number->evaluate(arguments.tensors));
  }
  for (const auto& found : found_) primals[found.primal] = found.find(arguments);
  return primals;
}

}  // namespace antegrad::guards
