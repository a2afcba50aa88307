#pragma once

/// \file
/// Stand-ins have no data: code that asks for it (`data_ptr`, accessors, `torch::tensor` from host values,
/// torch::save) gets an error of libtorch, which libtorch_errors.h translates.

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

namespace antegrad::capture {

/// Makes every access to the data of a stand-in's wrapper an error, reads included.
void forbid_data(const at::Tensor& wrapper);

/// For its lifetime the data of some wrappers may be asked for, as libtorch does for views while it
/// makes them.
class DataAllowed {
 public:
  DataAllowed() = default;
  ~DataAllowed();
  DataAllowed(const DataAllowed&) = delete;
  DataAllowed& operator=(const DataAllowed&) = delete;

  void add(const at::Tensor& wrapper);

 private:
  c10::SmallVector<c10::Storage, 4> storages_;
};

}  // namespace antegrad::capture
