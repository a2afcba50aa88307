#pragma once

/// \file
/// One argument of an operator call, without loss.
///
/// A node has one Attr for each argument of the operator's schema, in order. Tensor arguments (and
/// symbolic scalars computed in the graph) are `Input` and `InputList`: they take the next entries
/// of Node::inputs, so a pass can rewrite inputs without knowing schemas. Kinds that libtorch
/// distinguishes stay distinct: an int is not a Scalar that holds an int, and an absent optional
/// is not an empty list.

#include <complex>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/dtype.h"
#include "graph/int_expr.h"

namespace antegrad::attr {

/// Absent optional, or an undefined tensor.
struct None {
  friend bool operator==(const None&, const None&) = default;
};
/// The next entry of Node::inputs.
struct Input {
  friend bool operator==(const Input&, const Input&) = default;
};
/// A list of tensors. `present[i]` is false for an undefined entry, which takes no input.
struct InputList {
  std::vector<bool> present;
  friend bool operator==(const InputList&, const InputList&) = default;
};
/// at::Scalar with its kind.
struct Scalar {
  std::variant<IntExpr, double, bool, std::complex<double>> value;
  friend bool operator==(const Scalar&, const Scalar&);
};
/// A 0-dim tensor that libtorch made from a number (`x * 2`). It does not take part in type
/// promotion.
struct WrappedNumber {
  Scalar value;
  DType dtype = DType::f64;
  friend bool operator==(const WrappedNumber&, const WrappedNumber&);
};
struct Layout {
  std::string name;  ///< "strided", "sparse", ...
  friend bool operator==(const Layout&, const Layout&) = default;
};
struct MemoryFormat {
  std::string name;  ///< "contiguous", "preserve", "channels_last", "channels_last_3d"
  friend bool operator==(const MemoryFormat&, const MemoryFormat&) = default;
};
/// The generator at `index` in Graph::generators.
struct Generator {
  int32_t index = 0;
  friend bool operator==(const Generator&, const Generator&) = default;
};
/// An object that only the runtime can hold (a ScriptObject, a process group): an entry of
/// Graph::opaque_names. Equal only to itself.
struct Opaque {
  int32_t index = 0;
  friend bool operator==(const Opaque&, const Opaque&) = default;
};

using Value = std::variant<None, Input, InputList, IntExpr, double, bool, std::complex<double>,
                           std::string, DType, Layout, MemoryFormat, Device, Generator, Opaque,
                           Scalar, WrappedNumber, Shape, std::vector<double>, std::vector<bool>,
                           std::vector<std::string>, std::vector<Scalar>>;

}  // namespace antegrad::attr

namespace antegrad {

/// See the file comment. Floats compare by bits, so NaN equals itself and -0 differs from 0.
struct Attr {
  attr::Value value;

  Attr() = default;
  template <class T>
  Attr(T v) : value(std::move(v)) {}  // NOLINT: implicit by design

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value);
  }
  template <class T>
  const T& as() const {
    return std::get<T>(value);
  }

  /// Number of entries of Node::inputs that this argument takes.
  int input_count() const;

  friend bool operator==(const Attr& a, const Attr& b);
};

/// Hash that agrees with operator==.
uint64_t hash_value(const Attr& attr);

}  // namespace antegrad
