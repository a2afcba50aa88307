#pragma once

/// \file
/// Stand-ins have no data. Code that accesses it (`data_ptr`, accessors, `torch::tensor` from host
/// values, torch::save) gets an error of libtorch, which libtorch_errors.h translates.

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "torch_compat/scope.h"

namespace antegrad::capture {

/// The data of the wrappers of one capture.
class WrapperData {
 public:
  /// Makes every access to the data of a stand-in's wrapper an error, including reads.
  void forbid(const at::Tensor& wrapper);
  /// From now on libtorch may query all wrappers for information that it reads through their data:
  /// the device of a tensor that autograd saved and a derivative unpacks. The data itself, which
  /// does not exist, stays inaccessible.
  void let_devices_be_asked();

 private:
  friend class DataAllowed;
  bool forbids_ = true;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
};

/// Allows access to the data of some wrappers for its lifetime, as libtorch needs it to make views.
class DataAllowed : torch_compat::Scope {
 public:
  explicit DataAllowed(const WrapperData& data) : data_(data) {}
  ~DataAllowed();

  void add(const at::Tensor& wrapper);

 private:
  const WrapperData& data_;
  c10::SmallVector<c10::Storage, 4> storages_;
};

}  // namespace antegrad::capture
