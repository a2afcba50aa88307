#pragma once

/// \file
/// Data on which a generated kernel is compared with libtorch's: normal numbers and, if asked for,
/// infinities, NaNs, zeros of both signs, denormal and large numbers.

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::compiler {

/// The same sequence of tensors each time. Draws from a generator of its own, and only a short
/// sequence for each type: large tensors repeat it, at a distance that is no multiple of rows. They
/// are made on their device.
class InventedData {
 public:
  InventedData();
  /// What trials left in the caches of GPUs' allocators goes back to the devices.
  ~InventedData();
  InventedData(const InventedData&) = delete;
  InventedData& operator=(const InventedData&) = delete;

  /// A tensor of this layout. Integers lie in [begin, end).
  at::Tensor tensor(const torch_compat::TensorMetadata& metadata, int64_t begin, int64_t end,
                    bool special);

 private:
  at::Tensor integers(int64_t count, at::ScalarType type, int64_t begin, int64_t end);
  const at::Tensor& sequence(at::ScalarType type, bool special);
  const at::Tensor& sequence_on(c10::Device device, at::ScalarType type, bool special);

  at::Generator generator_;
  std::map<std::pair<at::ScalarType, bool>, at::Tensor> sequences_;
  std::map<std::tuple<std::string, at::ScalarType, bool>, at::Tensor> on_devices_;
  bool on_gpus_ = false;
  int64_t tensors_ = 0;  // that were made: each begins at another place of its sequence
};

}  // namespace antegrad::compiler
