#pragma once

/// \file
/// Ensures that a capture changes no state: records tensors and generators, compares and restores
/// them.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "torch_compat/scope.h"

namespace antegrad::capture {

/// The state of a real tensor when a capture first used it.
class Snapshot {
 public:
  explicit Snapshot(const at::Tensor& tensor);

  const at::Tensor& tensor() const { return tensor_; }
  /// Null if nothing changed, otherwise the property that did ("requires_grad", ".grad", ...).
  const char* changed() const;
  /// Restores requires_grad, `.grad` and the tensor's data.
  void restore() const;

 private:
  at::Tensor tensor_;
  at::Tensor data_;  // shares the original storage and metadata
  at::Tensor grad_;
  size_t hooks_ = 0;
  bool requires_grad_ = false;
};

/// Storages that libtorch refuses to resize while this lives: untyped_storage().resize_() of a real
/// tensor would happen now, and lose its data.
class FixedStorages : torch_compat::Scope {
 public:
  FixedStorages() = default;
  ~FixedStorages();
  void add(const at::Tensor& tensor);

 private:
  std::vector<c10::Storage> storages_;
};

/// The CPU's default generator before a capture. Other threads may draw from it meanwhile, so only
/// a new seed counts as a change.
class SeedSnapshot {
 public:
  SeedSnapshot();
  /// Throws CaptureError if it was seeded again.
  void require_unchanged() const;
  /// Restores it if it was seeded again.
  void restore();

 private:
  bool changed() const;  // call with the generator's lock held

  mutable at::Generator generator_;
  uint64_t seed_ = 0;
  bool fresh_ = false;  // nothing was drawn since it was seeded
  at::Tensor state_;
};

/// Tests one of the callable's own generators while a capture runs again: it gets another seed, so
/// that it shows whether the callable seeds it. Restores the generator afterwards.
class GeneratorUnderTest : torch_compat::Scope {
 public:
  explicit GeneratorUnderTest(at::Generator generator);
  ~GeneratorUnderTest();
  /// Throws CaptureError if it was seeded.
  void require_unchanged() const;

 private:
  mutable at::Generator generator_;
  at::Tensor state_;
  uint64_t seed_ = 0;  // the test's seed
};

}  // namespace antegrad::capture
