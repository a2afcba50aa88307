#pragma once

/// \file
/// Random tensors for tests of metadata: many shapes, dtypes and, above all, layouts (permuted,
/// sliced, stepped, expanded, channels-last, odd strides in size-1 dimensions, offsets). Values
/// avoid division by zero; floats are in (0, 1).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <vector>

namespace antegrad::testing {

using Shape = std::vector<int64_t>;

class RandomTensors {
 public:
  RandomTensors(uint64_t seed, c10::Device device) : random_(seed), device_(device) {}

  c10::Device device() const { return device_; }
  /// Uniform in [low, high].
  int64_t integer(int64_t low, int64_t high);
  bool chance(double probability);
  template <class T>
  T pick(std::initializer_list<T> options) {
    return options.begin()[integer(0, static_cast<int64_t>(options.size()) - 1)];
  }

  /// Sizes mostly 1 to 4, sometimes 0.
  Shape shape(int64_t min_rank = 0, int64_t max_rank = 5);
  /// Sizes 1 to 4.
  Shape full_shape(int64_t min_rank, int64_t max_rank);
  /// A shape that broadcasts to `shape`.
  Shape narrowed(Shape shape);

  at::ScalarType dtype();  ///< f32 most often, f64, bf16, i64, bool; now and then f16, i32, u8, c64
  at::ScalarType floating();  ///< f32, f64, bf16 or f16
  at::Scalar number();

  /// A tensor in a random layout.
  at::Tensor tensor(const Shape& shape, at::ScalarType dtype);
  at::Tensor contiguous(const Shape& shape, at::ScalarType dtype);
  /// int64 indices in [0, limit) in a random layout.
  at::Tensor indices(const Shape& shape, int64_t limit);
  /// A CPU scalar that libtorch treats as a wrapped number.
  at::Tensor wrapped_number();

 private:
  at::Tensor relaid(const Shape& shape, const std::function<at::Tensor(const Shape&)>& make);

  std::mt19937_64 random_;
  c10::Device device_;
};

}  // namespace antegrad::testing
