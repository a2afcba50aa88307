#pragma once

/// \file
/// Guards of module slots, laid out for speed: a model has hundreds, and all are checked before
/// each call.
///
/// A slot must hold the tensor it held, with the metadata it had. One small record a slot, read in
/// order; tensors of one or two dimensions, nearly all, need nothing else. What is only wanted when
/// a guard fails is kept apart.

#include <string>
#include <vector>

#include "guards/tensor_guard.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::guards {

class SlotGuards {
 public:
  /// `slot` is the address of the slot, valid while the module's structure is guarded; `primal` the
  /// number of the program's input that it gives.
  void add(const at::Tensor* slot, int32_t primal, std::string name);

  /// When not, and `why` is given, names the slot and what changed.
  bool hold(std::string* why) const;
  /// Puts each slot's tensor to its place.
  void collect(std::vector<at::Tensor>& primals) const;
  size_t size() const { return checks_.size(); }

 private:
  struct Check {
    const at::Tensor* slot;
    const c10::TensorImpl* impl;
    const torch::autograd::AutogradMeta* autograd;  // where it was, only to fetch it early
    uint64_t keys;
    int64_t offset;
    int64_t sizes[2];  // of the first and the last dimension
    int64_t strides[2];
    caffe2::TypeMeta dtype;
    uint8_t dims;
    bool requires_grad;
    bool simple;  // one or two dimensions, on the CPU; others: look at the full guard
  };
  struct Details {
    TensorGuard guard;
    int32_t primal;
    std::string name;
  };

  static bool holds(const Check& check);

  std::vector<Check> checks_;
  std::vector<Details> details_;
};

}  // namespace antegrad::guards
