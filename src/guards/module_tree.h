#pragma once

/// \file
/// The slots of a module and its submodules, their addresses, and fast checks that these are still
/// valid.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "torch_compat/module_access.h"

namespace antegrad::guards {

/// A slot of a parameter or buffer. `address` stays valid while ModuleGuard::holds().
struct Slot {
  Source source;
  const at::Tensor* address = nullptr;
};

/// A snapshot of a module with everything below it, depth first. Keeps the submodules alive.
class ModuleTree {
 public:
  /// `module` may be null, which gives an empty tree.
  explicit ModuleTree(std::shared_ptr<const torch::nn::Module> module);

  const std::vector<Slot>& slots() const { return slots_; }
  /// The first slot that holds this very tensor; null if there is none.
  const Slot* find(const at::Tensor& tensor) const;

  /// The first slot whose tensor has this storage; null if there is none.
  const Slot* find(const c10::StorageImpl* storage) const;

  /// Whether structure, slot addresses and training flags are unchanged since the tree was made. If
  /// not, and `why` is given, says what changed.
  bool holds(std::string* why = nullptr) const;

 private:
  template <class Slots>
  struct Dictionary {  // detects slots that were added or moved
    const Slots* slots;
    const void* first;
    size_t size;
  };
  struct Child {  // its slot, valid while the checks above hold, still has this module
    const std::shared_ptr<torch::nn::Module>* slot;
    const torch::nn::Module* expected;
  };
  struct Training {
    const bool* flag;
    bool expected;
  };

  void visit(const std::shared_ptr<const torch::nn::Module>& module, const std::string& path);
  void add_slots(const torch_compat::TensorSlots& slots, Source::Kind kind,
                 const std::string& path);

  std::vector<std::shared_ptr<const torch::nn::Module>> modules_;
  std::vector<std::string> paths_;
  std::vector<Slot> slots_;
  std::unordered_map<const c10::TensorImpl*, size_t> by_tensor_;
  std::vector<Dictionary<torch_compat::TensorSlots>> dictionaries_;
  std::vector<Dictionary<torch_compat::ChildSlots>> children_;  // listed in `child_`
  std::vector<Child> child_;
  std::vector<Training> training_;
};

}  // namespace antegrad::guards
