#pragma once

/// \file
/// Stand-ins have no data: code that asks for it (`data_ptr`, accessors, `torch::tensor` from host
/// values, torch::save) gets an error of libtorch, which libtorch_errors.h translates.

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <vector>

namespace antegrad::capture {

/// The data of the wrappers of one capture.
class WrapperData {
 public:
  /// Makes every access to the data of a stand-in's wrapper an error, reads included.
  void forbid(const at::Tensor& wrapper);
  /// From now on libtorch may ask all wrappers for what it finds through their data: the device of
  /// a tensor that autograd saved and that a derivative unpacks. A tensor's own data stays out of
  /// reach, which is not there.
  void let_devices_be_asked();

 private:
  friend class DataAllowed;
  bool forbids_ = true;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
};

/// For its lifetime the data of some wrappers may be asked for, as libtorch does for views while it
/// makes them.
class DataAllowed {
 public:
  explicit DataAllowed(const WrapperData& data) : data_(data) {}
  ~DataAllowed();
  DataAllowed(const DataAllowed&) = delete;
  DataAllowed& operator=(const DataAllowed&) = delete;

  void add(const at::Tensor& wrapper);

 private:
  const WrapperData& data_;
  c10::SmallVector<c10::Storage, 4> storages_;
};

}  // namespace antegrad::capture
