#pragma once

/// \file
/// Shared helpers of the tables of samples.

#include <ATen/ATen.h>

#include "support/shape_samples.h"

namespace antegrad::testing {

/// The value, or sometimes None.
inline c10::IValue maybe(RandomTensors& random, const c10::IValue& value) {
  return random.chance(0.25) ? c10::IValue() : value;
}

/// An output mask, mostly true.
inline c10::List<bool> mask(RandomTensors& random, size_t bits) {
  c10::List<bool> list;
  for (size_t i = 0; i < bits; ++i) list.push_back(random.chance(0.8));
  return list;
}

inline Shape joined(Shape a, const Shape& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Arguments joined(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A gradient of this shape, contiguous or in a random layout.
inline at::Tensor gradient(RandomTensors& random, const at::Tensor& of) {
  return random.chance(0.5) ? at::ones_like(of) : random.tensor(of.sizes().vec(), of.scalar_type());
}

/// A dimension of a tensor of this rank, possibly counted from the end.
inline int64_t any_dim(RandomTensors& random, int64_t rank) {
  const int64_t range = rank > 0 ? rank : 1;
  return random.integer(-range, range - 1);
}

inline int64_t positive_dim(RandomTensors& random, int64_t rank) {
  return random.integer(0, (rank > 0 ? rank : 1) - 1);
}

inline at::Tensor any_tensor(RandomTensors& random, int64_t min_rank = 0, int64_t max_rank = 5) {
  return random.tensor(random.shape(min_rank, max_rank), random.dtype());
}

}  // namespace antegrad::testing
