#pragma once

/// \file
/// Capture leaves no trace: what tensors and generators looked like before, compared and restored
/// afterwards.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace antegrad::capture {

/// What a real tensor showed when a capture first saw it.
class Snapshot {
 public:
  explicit Snapshot(const at::Tensor& tensor);

  const at::Tensor& tensor() const { return tensor_; }
  /// Empty when nothing changed, else the property that did ("requires_grad", ".grad", ...).
  const char* changed() const;
  /// Puts back requires_grad, `.grad` and the tensor's data.
  void restore() const;

 private:
  at::Tensor tensor_;
  at::Tensor data_;  // shares storage and metadata as they were
  at::Tensor grad_;
  size_t hooks_ = 0;
  bool requires_grad_ = false;
};

/// The CPU's default generator before a capture. Other threads may draw from it meanwhile, so only
/// a new seed counts as a change.
class SeedSnapshot {
 public:
  SeedSnapshot();
  /// Throws CaptureError when it was seeded anew.
  void require_unchanged() const;
  /// Puts it back where it was seeded anew.
  void restore();

 private:
  bool changed() const;  // with the generator's lock

  mutable at::Generator generator_;
  uint64_t seed_ = 0;
  bool fresh_ = false;  // nothing was drawn since it was seeded
  at::Tensor state_;
};

/// A generator of the callable's own while a capture runs once more: it has another seed, so that
/// it shows when the callable seeds it. Puts back what it was.
class GeneratorUnderTest {
 public:
  explicit GeneratorUnderTest(at::Generator generator);
  ~GeneratorUnderTest();
  GeneratorUnderTest(const GeneratorUnderTest&) = delete;
  GeneratorUnderTest& operator=(const GeneratorUnderTest&) = delete;
  /// Throws CaptureError when it was seeded.
  void require_unchanged() const;

 private:
  mutable at::Generator generator_;
  at::Tensor state_;
  uint64_t seed_ = 0;  // of the test
};

}  // namespace antegrad::capture
