#pragma once

/// \file
/// ag::dynamic: a number that may change from call to call without another program.
///
///     auto step = antegrad::compile(
///         [](const at::Tensor& x, const at::Tensor& scale) { return x * scale; });
///     step(x, antegrad::dynamic(0.1));
///     step(x, antegrad::dynamic(0.2));  // the same program
///
/// A plain number among the arguments is a constant of a program. A dynamic number is an input:
/// inside the callable, and in eager code, it is a CPU tensor without dimensions (double, int64 or
/// bool). It differs from a number as such a tensor does. Its value cannot decide a branch
/// (`item()` is refused). It cannot be a Scalar argument (`alpha` of add) or a size. With another
/// tensor without dimensions, or with a double times an integer tensor, the result is wider
/// (float64).

#include <antegrad/tree.h>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace antegrad {

namespace detail {
/// CPU tensors without dimensions.
at::Tensor scalar_tensor(bool value);
at::Tensor scalar_tensor(int64_t value);
at::Tensor scalar_tensor(double value);
}  // namespace detail

/// Types whose values fit into a double, an int64 or a bool.
template <class T>
concept DynamicNumber = std::is_arithmetic_v<T> &&
    (std::is_signed_v<T> || sizeof(T) < sizeof(int64_t));

/// A number that is an input of a program. A value type; as thread-safe as at::Tensor.
template <DynamicNumber T>
class Dynamic {
 public:
  explicit Dynamic(T value) : tensor_(detail::scalar_tensor(static_cast<Held>(value))) {}
  /// The number inside a capture, where its value is unknown.
  explicit Dynamic(at::Tensor tensor) : tensor_(std::move(tensor)) {}

  const at::Tensor& tensor() const { return tensor_; }
  operator at::Tensor() const { return tensor_; }  // NOLINT: replaces a number

 private:
  using Held = std::conditional_t<std::same_as<T, bool>, bool,
                                  std::conditional_t<std::is_floating_point_v<T>, double, int64_t>>;

  at::Tensor tensor_;
};

template <DynamicNumber T>
Dynamic<T> dynamic(T value) {
  return Dynamic<T>(value);
}

template <class T>
struct tree<Dynamic<T>> {
  static void flatten(const Dynamic<T>& value, Leaves& leaves) {
    leaves.tensors.push_back(value.tensor());
  }
  static Dynamic<T> unflatten(LeafReader& reader) { return Dynamic<T>(reader.tensor()); }
};

}  // namespace antegrad
