#pragma once

/// \file
/// Batch norms whose statistics are not those of their input alone: captures let them be computed
/// by others.

#include <ATen/core/Tensor.h>
#include <antegrad/recompute.h>

#include <memory>
#include <optional>

namespace antegrad::capture {

/// The arguments of at::batch_norm() in training.
struct BatchNormCall {
  at::Tensor input;
  std::optional<at::Tensor> weight, bias;
  at::Tensor running_mean, running_var;
  double momentum = 0;
  double epsilon = 0;
};

/// Thread-safe.
class BatchNorm {
 public:
  virtual ~BatchNorm() = default;
  /// Called in captures. Updates the running statistics.
  virtual at::Tensor compute(const BatchNormCall& call) const = 0;
};

/// Lets `norm` compute batch norms with these running means, as long as the tensor lives, or until
/// it is replaced by null. Programs that were captured before are not used any more.
void compute_norm_with(const at::Tensor& running_mean, std::shared_ptr<const BatchNorm> norm);

/// While one lives, captures let what nodes give be saved, if the backward reads it.
class Saved {
 public:
  Saved();
  ~Saved();
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

 private:
  Recompute before_;
};

/// Null for a batch norm that libtorch computes.
std::shared_ptr<const BatchNorm> norm_with(const at::Tensor& running_mean);

}  // namespace antegrad::capture
