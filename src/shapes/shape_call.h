#pragma once

/// \file
/// What a shape function sees and what it answers.
///
/// A shape function computes, from argument metadata alone, what an operator would return: dtype,
/// device, sizes and exact strides of each output. It never reads data. Tensors in a Call may be
/// stand-ins (during capture) or real tensors (in the cross-check tests); only their metadata may be
/// asked for. A function that meets a case it does not know exactly returns false, and capture asks
/// the operator's Meta kernel instead; returning a guess is a bug.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string_view>
#include <vector>

namespace antegrad::shapes {

using Dims = c10::SmallVector<int64_t, 6>;

/// Metadata of one output. Strides and offset count elements.
struct Spec {
  at::ScalarType dtype = at::kFloat;
  c10::Device device = at::kCPU;
  Dims sizes;
  Dims strides;
  int64_t offset = 0;   ///< storage offset; other than 0 only for views
  bool defined = true;  ///< false: the operator returns an undefined tensor here
  /// Set when the operator returns an integer here that follows from metadata; the rest is unused.
  std::optional<int64_t> integer = std::nullopt;
  /// The same down to the storage offset and each stride, as far as it is used.
  friend bool operator==(const Spec& a, const Spec& b);
};

/// Strides of a contiguous tensor of these sizes.
Dims contiguous_strides(at::IntArrayRef sizes);
/// A contiguous output on the device and with the dtype of `like`.
Spec contiguous(const at::Tensor& like, at::IntArrayRef sizes);
/// The same metadata as `like` when it is non-overlapping and dense, else what empty_like gives.
Spec like(const at::Tensor& like);
/// What a strided tensor is.
Spec spec_of(const at::Tensor& tensor);
/// An undefined output.
Spec undefined();
/// An integer output.
Spec integer(int64_t value);
/// What an operator returned, lists flattened. Other values than tensors and integers are left out.
std::vector<Spec> specs_of(at::ArrayRef<c10::IValue> returned);

/// One call of an operator: arguments by schema position, and the outputs that are being described.
class Call {
 public:
  explicit Call(at::ArrayRef<c10::IValue> args) : args_(args) {}

  size_t size() const { return args_.size(); }
  const c10::IValue& arg(size_t i) const { return args_[i]; }
  /// Whether the optional argument `i` is absent; an undefined tensor is, too.
  bool is_none(size_t i) const {
    return args_[i].isNone() || (args_[i].isTensor() && !args_[i].toTensor().defined());
  }
  /// The tensor argument `i`; undefined when it is None.
  at::Tensor tensor(size_t i) const {
    return args_[i].isNone() ? at::Tensor() : args_[i].toTensor();
  }
  std::vector<at::Tensor> tensors(size_t i) const { return args_[i].toTensorVector(); }
  int64_t integer(size_t i) const { return args_[i].toInt(); }
  double number(size_t i) const { return args_[i].toDouble(); }
  bool boolean(size_t i) const { return args_[i].toBool(); }
  std::vector<int64_t> integers(size_t i) const { return args_[i].toIntVector(); }
  /// The dtype argument `i`, nothing when it is None.
  std::optional<at::ScalarType> dtype(size_t i) const {
    if (args_[i].isNone()) return std::nullopt;
    return args_[i].toScalarType();
  }

  void returns(Spec spec) { outputs_.push_back(std::move(spec)); }
  /// Outputs so far: one a returned tensor, lists flattened, in schema order.
  const std::vector<Spec>& outputs() const { return outputs_; }
  std::vector<Spec>& outputs() { return outputs_; }

 private:
  at::ArrayRef<c10::IValue> args_;
  std::vector<Spec> outputs_;
};

/// Describes all outputs and returns true, or returns false without an answer. May throw what the
/// operator itself would throw for arguments that do not fit together (c10::Error).
using Function = bool (*)(Call& call);

/// One line of a family's table.
struct Entry {
  std::string_view op;  ///< "aten::mm", "aten::add.Tensor": overload after the dot, none for ""
  Function function;
};

/// The shape function of an operator ("aten::add.Tensor", "aten::mm"), or null. Thread-safe.
Function find(std::string_view op);
/// Every entry of every family, for cross-checks and documentation.
std::vector<Entry> all();

}  // namespace antegrad::shapes
