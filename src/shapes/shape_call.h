#pragma once

/// \file
/// Arguments and results of a shape function.
///
/// A shape function computes what an operator would return, from argument metadata alone: dtype,
/// device, sizes and exact strides of each output. It never reads data. Tensors in a Call may be
/// stand-ins (during capture) or real tensors (in the cross-check tests); only their metadata may
/// be read. In a case that it does not know exactly it returns false, and capture asks the
/// operator's Meta kernel instead. Returning a guess is a bug.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string_view>
#include <vector>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::shapes {

using torch_compat::Dims;

/// One output: a tensor, or an integer that depends only on metadata.
struct Spec : torch_compat::TensorMetadata {
  std::optional<int64_t> integer = std::nullopt;  ///< if set, the tensor's fields are unused
  /// Equal down to the storage offset and each stride, for the fields in use.
  friend bool operator==(const Spec& a, const Spec& b);
};

/// Strides of a contiguous tensor of these sizes.
using c10::contiguous_strides;
/// A contiguous output on the device and with the dtype of `like`.
Spec contiguous(const at::Tensor& like, at::IntArrayRef sizes);
/// The metadata of `like` if it is non-overlapping and dense, otherwise those of empty_like.
Spec like(const at::Tensor& like);
/// The metadata of a strided tensor.
Spec spec_of(const at::Tensor& tensor);
/// An undefined output.
Spec undefined();
/// An integer output.
Spec integer(int64_t value);
/// What an operator returned, lists flattened. Values other than tensors and integers are omitted.
std::vector<Spec> specs_of(at::ArrayRef<c10::IValue> returned);

/// One call of an operator: arguments by schema position, and the outputs described so far.
class Call {
 public:
  explicit Call(at::ArrayRef<c10::IValue> args) : args_(args) {}

  size_t size() const { return args_.size(); }
  const c10::IValue& arg(size_t i) const { return args_[i]; }
  /// Whether the optional argument `i` is absent. An undefined tensor counts as absent.
  bool is_none(size_t i) const {
    return args_[i].isNone() || (args_[i].isTensor() && !tensor(i).defined());
  }
  /// The tensor argument `i`; undefined if it is None.
  const at::Tensor& tensor(size_t i) const {
    static const at::Tensor none;
    return args_[i].isNone() ? none : args_[i].toTensor();
  }
  int64_t integer(size_t i) const { return args_[i].toInt(); }
  bool boolean(size_t i) const { return args_[i].toBool(); }
  /// The dtype argument `i`; nothing if it is None.
  std::optional<at::ScalarType> dtype(size_t i) const {
    if (args_[i].isNone()) return std::nullopt;
    return args_[i].toScalarType();
  }

  /// Appends outputs. Always returns true, the result of a shape function that described all
  /// outputs.
  template <class... Specs>
  bool returns(Specs... specs) {
    (outputs_.push_back(std::move(specs)), ...);
    return true;
  }
  /// Outputs so far: one per returned tensor, lists flattened, in schema order.
  const std::vector<Spec>& outputs() const { return outputs_; }
  std::vector<Spec>& outputs() { return outputs_; }

 private:
  at::ArrayRef<c10::IValue> args_;
  std::vector<Spec> outputs_;
};

/// Describes all outputs and returns true, or returns false. May throw the operator's own error
/// for inconsistent arguments (c10::Error).
using Function = bool (*)(Call& call);

/// An operator and its shape function.
struct Entry {
  std::string_view op;  ///< "aten::mm", "aten::add.Tensor": overload after the dot, none for ""
  Function function;
};

/// The shape function of an operator ("aten::add.Tensor", "aten::mm"), or null. Thread-safe.
Function find(std::string_view op);
/// Every row of every family, for cross-checks and documentation.
std::vector<Entry> all();

}  // namespace antegrad::shapes
