#pragma once

/// \file
/// A value, or the reason why there is none, for what must not throw.

#include <utility>
#include <variant>

namespace antegrad {

template <class T, class Failure>
class Outcome {
 public:
  Outcome(T value) : state_(std::move(value)) {}
  Outcome(Failure failure) : state_(std::move(failure)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  /// Only if there is no value.
  const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace antegrad
