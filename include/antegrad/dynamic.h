#pragma once

/// \file
/// ag::dynamic: a number that may change from call to call without another program.
///
///     auto step = antegrad::compile(
///         [](const at::Tensor& x, antegrad::Dynamic<double> rate) { return x * rate; });
///     step(x, antegrad::dynamic(0.1));
///     step(x, antegrad::dynamic(0.2));  // the same program
///
/// A plain number among the arguments is a constant of a program. A dynamic number is an input: it
/// converts to at::Scalar, and operators treat it as they treat the plain number. Numbers computed
/// from it (`1 - rate`) are inputs too. value() decides: the number becomes a constant of the
/// program, and each value has its own. So does an operator whose result depends on it (arange), or
/// whose kernel or derivative is chosen by it (pow, if its input requires grad).

#include <antegrad/tree.h>

#include <c10/core/Scalar.h>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace antegrad {

namespace detail {
/// Computes `a op b` for an op of "+-*/": in double if `real`, otherwise in int64.
c10::Scalar arithmetic(char op, const c10::Scalar& a, const c10::Scalar& b, bool real);
/// A number as a leaf (a wrapped CPU tensor without dimensions), and back.
at::Tensor leaf_of(const c10::Scalar& number);
c10::Scalar number_of(const at::Tensor& leaf);
}  // namespace detail

/// Types whose values fit into a double, an int64 or a bool.
template <class T>
concept DynamicNumber = std::is_arithmetic_v<T> &&
    (std::is_signed_v<T> || sizeof(T) < sizeof(int64_t));

/// A number that is an input of a program. A value type. One that is made inside a captured
/// callable must not outlive the call.
template <DynamicNumber T>
class Dynamic {
 public:
  explicit Dynamic(T value) : number_(static_cast<Held>(value)) {}
  explicit Dynamic(c10::Scalar number) : number_(std::move(number)) {}

  operator c10::Scalar() const { return number_; }  // NOLINT: replaces a number
  const c10::Scalar& scalar() const { return number_; }
  /// The value. Inside a captured callable it becomes a constant of the program.
  T value() const { return static_cast<T>(number_.to<Held>()); }

 private:
  using Held = std::conditional_t<std::same_as<T, bool>, bool,
                                  std::conditional_t<std::is_floating_point_v<T>, double, int64_t>>;

  c10::Scalar number_;
};

template <DynamicNumber T>
Dynamic<T> dynamic(T value) {
  return Dynamic<T>(value);
}

namespace detail {
template <class T>
struct DynamicValue {};
template <DynamicNumber T>
requires(!std::same_as<T, bool>) struct DynamicValue<T> {
  using type = T;
};
template <DynamicNumber T>
struct DynamicValue<Dynamic<T>> : DynamicValue<T> {
  static constexpr bool dynamic = true;
};

template <class T>
c10::Scalar operand(const T& number) {
  if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(number);
  return number;
}

/// Double if one of the two is a floating-point number, otherwise int64.
template <class A, class B>
using DynamicResult =
    std::conditional_t<std::is_floating_point_v<typename DynamicValue<A>::type> ||
                           std::is_floating_point_v<typename DynamicValue<B>::type>,
                       double, int64_t>;
template <class T>
concept IsDynamic = DynamicValue<T>::dynamic;
/// Numbers of which at least one is dynamic.
template <class A, class B>
concept Dynamics = (IsDynamic<A> || IsDynamic<B>)&&sizeof(DynamicResult<A, B>) > 0;
/// The same with a floating-point number among them.
template <class A, class B>
concept RealDynamics = Dynamics<A, B> && std::is_floating_point_v<DynamicResult<A, B>>;

template <class A, class B>
Dynamic<DynamicResult<A, B>> arithmetic_of(char op, const A& a, const B& b) {
  using Result = DynamicResult<A, B>;
  return Dynamic<Result>(arithmetic(op, operand(a), operand(b), std::is_floating_point_v<Result>));
}
}  // namespace detail

/// Arithmetic of numbers, in double or in int64.
template <class A, class B>
requires detail::Dynamics<A, B>
auto operator+(const A& a, const B& b) { return detail::arithmetic_of('+', a, b); }
template <class A, class B>
requires detail::Dynamics<A, B>
auto operator-(const A& a, const B& b) { return detail::arithmetic_of('-', a, b); }
template <class A, class B>
requires detail::Dynamics<A, B>
auto operator*(const A& a, const B& b) { return detail::arithmetic_of('*', a, b); }
/// Not for two integers, which C++ rounds.
template <class A, class B>
requires detail::RealDynamics<A, B>
auto operator/(const A& a, const B& b) { return detail::arithmetic_of('/', a, b); }

template <class T>
struct tree<Dynamic<T>> {
  static void flatten(const Dynamic<T>& value, Leaves& leaves) {
    leaves.tensors.push_back(detail::leaf_of(value.scalar()));
  }
  static Dynamic<T> unflatten(LeafReader& reader) {
    return Dynamic<T>(detail::number_of(reader.tensor()));
  }
};

}  // namespace antegrad
