#pragma once

/// \file
/// Numbers of a call inside a capture: symbolic Scalars, from which the callable computes others.
///
/// The callable receives a Scalar that holds a symbolic number of libtorch (c10::SymNode).
/// Arithmetic on it makes expressions (ops/number.h). An operator that takes one as an argument
/// gets an input of the graph. A comparison is answered for the values of this call and becomes a
/// condition of the program. Any other question for the value decides: the numbers in the
/// expression become constants of the graph, which is captured again.

#include <ATen/core/ivalue.h>
#include <c10/core/SymNodeImpl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/number.h"

namespace antegrad::capture {

/// The numbers of one run of a callable. Symbolic numbers share its ownership. Thread-safe.
class Numbers : public std::enable_shared_from_this<Numbers> {
 public:
  /// Leaves that are numbers are symbolic, except those in `fixed`, which may be shorter.
  Numbers(std::vector<at::Tensor> leaves, std::vector<bool> fixed);

  size_t leaf_count() const { return leaves_.size(); }
  /// Whether any number is symbolic.
  bool any() const { return !symbolic_.empty(); }
  /// The Scalar for a leaf that is a number.
  at::Scalar scalar_of(const at::Tensor& leaf);

  /// What the run made of its numbers so far, except primals. All numbers are fixed if `all`.
  ops::NumberUse use(bool all = false) const;

  /// Called by symbolic numbers.
  std::optional<ops::Number> evaluate(const ops::NumberExpr& number) const {
    return number.evaluate(leaves_);
  }
  void decides(const ops::NumberExpr& number);
  void assume(const ops::NumberExprPtr& condition, bool answer);

 private:
  const std::vector<at::Tensor> leaves_;
  std::unordered_map<const c10::TensorImpl*, int32_t> symbolic_;  // leaf by tensor
  mutable std::mutex mutex_;                                      // guards what follows
  std::vector<bool> fixed_;                                       // by leaf
  std::vector<std::pair<ops::NumberExprPtr, bool>> conditions_;
};

/// A symbolic number as an argument of an operator: its expression and value.
struct SymbolicNumber {
  ops::NumberExprPtr expression;
  ops::Number value;
};

/// Nothing if the value is not a symbolic number of a capture.
std::optional<SymbolicNumber> symbolic_number(const c10::IValue& value);

/// How another language passes symbolic numbers. Both functions return null for anything else.
struct NumbersOfLanguage {
  /// The symbolic number that a wrapped number stands for.
  c10::SymNode (*behind)(const at::Tensor& wrapped);
  /// The symbolic number inside of an object of the language.
  c10::SymNode (*inside)(const c10::SymNode& node);
};
/// `language` must live as long as the process.
void set_language(const NumbersOfLanguage& language);
/// The symbolic number that a wrapped number stands for, if any.
std::optional<SymbolicNumber> symbolic_number_behind(const at::Tensor& wrapped);

/// Arguments in which symbolic numbers are replaced by their values. With `decides`, these become
/// constants of the graph.
std::vector<c10::IValue> with_values(at::ArrayRef<c10::IValue> args, bool decides);

/// The number in a leaf: symbolic if a capture runs in which it is.
at::Scalar number_in_leaf(const at::Tensor& leaf);

}  // namespace antegrad::capture
