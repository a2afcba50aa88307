#pragma once

/// \file
/// Gradients that are added up on this rank until a reduction takes the sum along:
///
///   antegrad::accumulate(Tensor[] parts, int[] offsets, int elements, ScalarType dtype, str sum)
///       -> Tensor
///       adds parts, as antegrad::pack would place them, to the sum of that name. Its result, which
///       has no elements, is a gradient: whoever asks for it asks for that.
///   antegrad::pack(Tensor[] parts, int[] offsets, int elements, ScalarType dtype, str sum)
///       -> Tensor
///       a flat tensor with the elements of each part from its offset on, and zeros between; added
///       to them is what the sum has, from which it is taken
///   antegrad::join(Tensor[] parts, int[] offsets, int elements, ScalarType dtype) -> Tensor
///       the same without a sum

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capture/placeholder.h"

namespace antegrad::detail {

/// Of the gradients of parameters that are reduced together. Thread-safe.
class LocalSum {
 public:
  /// Tensors that lie in a flat one of so many elements, at these offsets.
  struct Parts {
    at::TensorList tensors;
    at::IntArrayRef offsets;
    int64_t elements;
    at::ScalarType dtype;
  };

  /// `whole`: whether a reduction takes all of the sum, or only where it has parts itself.
  /// `device`: that of the gradients.
  static std::shared_ptr<LocalSum> make(const std::string& group, bool whole,
                                        c10::Device device = c10::kCPU);
  ~LocalSum();
  LocalSum(const LocalSum&) = delete;
  LocalSum& operator=(const LocalSum&) = delete;

  /// The one that programs know by this name; null if it is gone.
  static std::shared_ptr<LocalSum> find(const std::string& name);
  const std::string& name() const { return name_; }

  /// Whether calls that begin now add to it: while it was opened more often than closed.
  void open() { open_.fetch_add(1, std::memory_order_relaxed); }
  void close() { open_.fetch_sub(1, std::memory_order_relaxed); }
  capture::Gradients gradients() const {
    return open_.load(std::memory_order_relaxed) > 0 ? capture::Gradients::accumulated
                                                     : capture::Gradients::reduced;
  }
  /// For calls that add to it: a leaf without elements, whose gradient is what
  /// antegrad::accumulate returns.
  std::optional<at::Tensor> leaf_for(capture::Gradients gradients) const {
    return gradients == capture::Gradients::accumulated ? std::optional(leaf_) : std::nullopt;
  }

  void add(const Parts& parts);
  at::Tensor packed_with(const Parts& parts);
  bool empty() const;
  void clear();

 private:
  LocalSum(std::string name, bool whole, c10::Device device);

  const std::string name_;
  const bool whole_;
  const at::Tensor leaf_;
  std::atomic<int> open_{0};
  mutable std::mutex mutex_;
  std::map<int64_t, at::Tensor> sums_;  // flat, by offset; guarded by mutex_
};

}  // namespace antegrad::detail

namespace antegrad::distributed {

/// As the operators of these names. In a capture they are recorded.
at::Tensor accumulate(const detail::LocalSum::Parts& parts, const detail::LocalSum& sum);
at::Tensor pack(const detail::LocalSum::Parts& parts, const detail::LocalSum& sum);

}  // namespace antegrad::distributed
