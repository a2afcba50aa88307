#pragma once

/// \file
/// Numbers of a call that are inputs of a program, and what is computed from them before it runs.
///
/// A number is passed as a leaf: a CPU tensor without dimensions that is a wrapped number (double,
/// int64 or bool). In a graph, an input that is a number has the source `argument` and a name,
/// which is its expression over the leaves: "n0", "1.0 - n0". An operator takes it as a Scalar, or
/// as a wrapped number where its schema has a tensor.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace antegrad::ops {

using Number = std::variant<bool, int64_t, double>;

/// Bits, so that NaN equals itself and -0.0 differs from 0.0.
bool same_number(const Number& a, const Number& b);
std::string to_text(const Number& number);
at::Scalar to_scalar(const Number& number);
/// Requires a Scalar that is not symbolic or complex.
Number number_of(const at::Scalar& scalar);

/// Whether the tensor is a leaf that is a number.
bool is_number(const at::Tensor& tensor);
/// Whether the input of a graph is a number.
inline bool is_number(const Input& input) {
  return input.source.kind == Source::Kind::argument && !input.source.name.empty();
}
/// Reads a CPU tensor of one element of double, int64 or bool, without the dispatcher.
Number read_number(const at::Tensor& tensor);
/// A new leaf.
at::Tensor wrapped_number(const Number& number);

enum class NumberOp : uint8_t {
  argument,
  constant,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  remainder,
  power,
  negate,
  to_float,
  equal,
  less,
  less_equal,
};

struct NumberExpr;
using NumberExprPtr = std::shared_ptr<const NumberExpr>;

/// An expression over the numbers of a call. Immutable.
struct NumberExpr {
  NumberOp op = NumberOp::constant;
  int32_t leaf = -1;  ///< argument: index among the tensor leaves of the call
  Number value = {};  ///< constant
  NumberExprPtr first = {}, second = {};

  /// The value, by the arithmetic of Python: IEEE double, or exact integers. Nothing where Python
  /// raises an error, where an integer leaves int64, or where Python rounds in another way than one
  /// operation in double. Both operands must have one type.
  std::optional<Number> evaluate(const std::vector<at::Tensor>& leaves) const;
  /// "n0", "(1.0 - n0)". Equal texts have equal values.
  std::string text() const;
  /// Marks the leaves on which it depends.
  void mark_leaves(std::vector<bool>& leaves) const;
};

/// The numbers on which a captured graph depends.
struct NumberUse {
  struct Primal {
    NumberExprPtr number;
    int32_t index;  ///< among the primals
  };
  std::vector<Primal> primals;
  /// Comparisons that decided something, with their answers.
  std::vector<std::pair<NumberExprPtr, bool>> conditions;
  /// By tensor leaf: whether it is a number whose value is a constant of the graph.
  std::vector<bool> fixed;

  /// Why a call with these leaves cannot use the graph, which was captured with leaves whose
  /// numbers are `was`; empty if it can.
  std::string misfit(const std::vector<std::optional<Number>>& was,
                     const std::vector<at::Tensor>& leaves) const;
};

}  // namespace antegrad::ops
