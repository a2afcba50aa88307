#pragma once

/// \file
/// The state outside of its arguments that a trial run may change: recorded before, restored after
/// it.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "torch_compat/autograd_node.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::check {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};
struct NamedGenerator {
  std::string name;
  at::Generator generator;
};

/// Tensors (data, version, sizes, size of the storage, requires_grad, history) and generators.
/// Tensors with the same storage count as one. No other thread may write them meanwhile.
class TrialState {
 public:
  TrialState(const std::vector<NamedTensor>& tensors,
             const std::vector<NamedGenerator>& generators);
  /// Writes only tensors that changed.
  void restore() const;

 private:
  struct SavedTensor {
    at::Tensor tensor;
    torch_compat::TensorMetadata metadata;
    uint32_t version = 0;
    bool requires_grad = false;  // if it is a leaf
    torch_compat::NodePtr grad_fn;
    uint32_t output_nr = 0;
  };
  struct SavedBytes {
    at::Tensor bytes;  // of a storage that is in place
    at::Tensor copy;
  };
  struct SavedGenerator {
    at::Generator generator;
    at::Tensor state;
  };

  std::vector<SavedTensor> tensors_;
  std::vector<SavedBytes> storages_;
  std::vector<SavedGenerator> generators_;
};

}  // namespace antegrad::check
