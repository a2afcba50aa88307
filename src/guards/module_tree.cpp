#include "guards/module_tree.h"

#include <algorithm>

#include "guards/changed.h"

namespace antegrad::guards {

ModuleTree::ModuleTree(std::shared_ptr<const torch::nn::Module> module) {
  if (module) visit(module, "");
}

void ModuleTree::visit(const std::shared_ptr<const torch::nn::Module>& module,
                       const std::string& path) {
  modules_.push_back(module);
  paths_.push_back(path);
  training_.push_back({&torch_compat::training_flag(*module), module->is_training()});
  add_slots(torch_compat::parameter_slots(*module), Source::Kind::parameter, path);
  add_slots(torch_compat::buffer_slots(*module), Source::Kind::buffer, path);
  const auto& children = torch_compat::child_slots(*module);
  children_.push_back({&children, children.items().data(), children.size()});
  for (size_t i = 0; i < children.size(); ++i) {
    child_.push_back({&children[i].value(), children[i].value().get()});
    visit(children[i].value(), path + children[i].key() + ".");
  }
}

void ModuleTree::add_slots(const torch_compat::TensorSlots& slots, Source::Kind kind,
                           const std::string& path) {
  dictionaries_.push_back({&slots, slots.items().data(), slots.size()});
  for (const auto& item : slots) {
    if (!item.value().defined()) continue;
    by_tensor_.emplace(item.value().unsafeGetTensorImpl(), slots_.size());
    slots_.push_back({Source{kind, -1, path + item.key()}, &item.value()});
  }
}

const Slot* ModuleTree::find(const at::Tensor& tensor) const {
  const auto it = by_tensor_.find(tensor.unsafeGetTensorImpl());
  return it == by_tensor_.end() ? nullptr : &slots_[it->second];
}

const Slot* ModuleTree::find(const c10::StorageImpl* storage) const {
  const auto it = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    const auto& tensor = *slot.address;
    return tensor.has_storage() && tensor.storage().unsafeGetStorageImpl() == storage;
  });
  return it == slots_.end() ? nullptr : &*it;
}

bool ModuleTree::holds(std::string* why) const {
  const auto as_before = [](const auto& c) {
    const auto& items = c.slots->items();
    return items.data() == c.first && items.size() == c.size;
  };
  const bool same_children = std::all_of(children_.begin(), children_.end(), as_before) &&
                             std::all_of(child_.begin(), child_.end(), [](const Child& child) {
                               return child.slot->get() == child.expected;
                             });
  if (!same_children) return misfit(why, [&] { return "a submodule was added or replaced"; });
  if (!std::all_of(dictionaries_.begin(), dictionaries_.end(), as_before)) {
    return misfit(why, [&] { return "a parameter or buffer was registered"; });
  }
  for (size_t i = 0; i < training_.size(); ++i) {
    if (*training_[i].flag == training_[i].expected) continue;
    return misfit(why, [&] {
      return "is_training() of module '" + paths_[i] + "' was " +
             (training_[i].expected ? "true, is false" : "false, is true");
    });
  }
  return true;
}

}  // namespace antegrad::guards
