#pragma once

/// \file
/// Guards of module slots, laid out for speed: a model has hundreds, and all are checked before
/// each call.
///
/// A slot must hold the same tensor with the same metadata. There is one small record per slot,
/// read in order. Tensors of one or two dimensions, which are nearly all, need nothing else. Data
/// used only when a guard fails are stored separately.

#include <string>
#include <vector>

#include "guards/tensor_guard.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::guards {

class SlotGuards {
 public:
  /// `slot` is the address of the slot, valid while the module's structure is guarded. `primal` is
  /// the index of the program's input that it provides.
  void add(const at::Tensor* slot, int32_t primal, std::string name);

  /// If a guard fails and `why` is given, names the slot and the change.
  bool hold(std::string* why) const;
  /// Writes the tensor of each slot to the position of its primal.
  void collect(std::vector<at::Tensor>& primals) const;
  size_t size() const { return checks_.size(); }
  friend bool operator==(const SlotGuards&, const SlotGuards&) = default;

 private:
  struct Check {
    const at::Tensor* slot = nullptr;
    const c10::TensorImpl* impl = nullptr;
    // Only for prefetching; may be old.
    const torch::autograd::AutogradMeta* autograd = nullptr;
    const c10::StorageImpl* storage = nullptr;
    uint64_t keys = 0;
    int64_t offset = 0;
    int64_t sizes[2] = {};  // of the first and the last dimension
    int64_t strides[2] = {};
    caffe2::TypeMeta dtype;
    uint8_t dims = 0;
    bool requires_grad = false;
    bool lacks_memory = false;
    bool simple = false;  // one or two dimensions, on the CPU; otherwise the full guard is used
    friend bool operator==(const Check&, const Check&) = default;
  };
  struct Details {
    TensorGuard guard;
    int32_t primal;
    std::string name;
    friend bool operator==(const Details&, const Details&) = default;
  };

  static bool holds(const Check& check);

  std::vector<Check> checks_;
  std::vector<Details> details_;
};

}  // namespace antegrad::guards
