#pragma once

/// \file
/// The layouts that libtorch's shared machinery gives to fresh outputs: memory formats,
/// empty_like, and TensorIterator, which most elementwise operators use. The rules in the family
/// files are built from these. Each follows the code in ATen step by step, because near misses in
/// strides (size-1 dimensions, ties, temporaries made by type promotion) are silently wrong
/// programs.

#include <c10/core/DefaultDtype.h>
#include <c10/core/MemoryFormat.h>

#include <initializer_list>
#include <optional>
#include <span>

#include "shapes/shape_call.h"

namespace antegrad::shapes {

/// An operand as TensorIterator sees it. Borrows sizes and strides.
struct Geometry {
  Geometry() = default;
  explicit Geometry(const at::Tensor& tensor);
  explicit Geometry(const Spec& spec) : Geometry(spec.sizes, spec.strides) {}
  Geometry(at::IntArrayRef sizes, at::IntArrayRef strides);

  at::IntArrayRef sizes;
  at::IntArrayRef strides;
  bool contiguous = true;
  bool channels_last = false;
  bool dense = true;  ///< no holes, no overlap
};

inline at::ScalarType default_dtype() { return c10::get_default_dtype_as_scalartype(); }

/// A fresh output, with the strides of `at::empty` for this memory format.
Spec fresh(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device,
           at::MemoryFormat format = at::MemoryFormat::Contiguous);
/// A fresh tensor with the dtype, the device and the suggested memory format of `self`.
Spec in_format_of(const at::Tensor& self, at::IntArrayRef sizes);
/// The result of `at::empty_like(self, dtype, format)`; no format means Preserve.
Spec allocated_like(const at::Tensor& self, std::optional<at::MemoryFormat> format = std::nullopt);
/// `spec` with another dtype.
Spec with_dtype(Spec spec, at::ScalarType dtype);
/// A view of `self`.
Spec view_of(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
             int64_t offset);

/// How an elementwise operator derives its computation dtype and its result dtype.
enum class Promotion {
  kCommon,    ///< result is the common dtype of the operands
  kFloat,     ///< the same, but integers are promoted to the default dtype
  kBool,      ///< computed in the common dtype, result bool
  kSame,      ///< operands must agree in dtype: no promotion
  kSameBool,  ///< the same, result bool (isnan, logical_not, …: input left as it is)
};

/// Collects the operands of an elementwise operator in TensorIterator's order, then describes its
/// output. Operands are borrowed: they must outlive the call of `returns`.
class Elementwise {
 public:
  void add(const at::Tensor& tensor);
  /// A number, as libtorch wraps it: a 0-dim operand with weak type promotion.
  void add(const at::Scalar& number);
  /// Argument `i` of the call, tensor or number.
  void add(const Call& call, size_t i);
  /// An operand that keeps its dtype and does not affect the common one (a condition, a mask).
  void add_unpromoted(const at::Tensor& tensor);

  /// The computation dtype of the operands.
  at::ScalarType common_dtype() const;
  /// Appends the output to the call. Returns false if the case is not known exactly.
  bool returns(Call& call, Promotion promotion) const;
  /// The same with both dtypes given. CPU kernels first copy operands of another dtype than
  /// `compute` to it, which changes the strides that count. Undefined: no such copies.
  bool returns(Call& call, at::ScalarType compute, at::ScalarType result) const;

 private:
  bool device(c10::Device& device) const;

  static constexpr size_t kMax = 4;
  struct Operand {
    const at::Tensor* tensor = nullptr;  ///< null: a number
    at::ScalarType number = at::ScalarType::Undefined;
    bool promoted = true;
  };
  Operand operands_[kMax];
  size_t count_ = 0;
};

/// One output, computed from the operands at `Args`.
template <Promotion P, size_t... Args>
bool elementwise(Call& call) {
  Elementwise operands;
  (operands.add(call, Args), ...);
  return operands.returns(call, P);
}

/// `Rule`, if the operator has a kernel for the result's dtype. Otherwise the operator is asked,
/// so that capture raises its error.
template <Function Rule, bool (*Supported)(at::ScalarType)>
bool only(Call& call) {
  return Rule(call) && Supported(call.outputs().back().dtype);
}

/// The shape that two shapes broadcast to; throws when they do not.
Dims broadcast(at::IntArrayRef a, at::IntArrayRef b);

/// The layout of an output that TensorIterator allocates for these operands. Sets sizes and strides
/// of `out`, which operands may refer to. Throws if they do not broadcast.
void iterator_layout(std::span<const Geometry> operands, Spec& out);
inline void iterator_layout(std::initializer_list<Geometry> operands, Spec& out) {
  iterator_layout(std::span(operands.begin(), operands.size()), out);
}

/// Whether a tensor broadcasts to the shape of `self`. Throws if the two do not broadcast at all.
bool fits(const at::Tensor& other, const at::Tensor& self);

/// The suggested memory format of a tensor with this geometry.
at::MemoryFormat suggest_format(at::IntArrayRef sizes, at::IntArrayRef strides);

/// The dtype in which CUDA kernels accumulate and statistics are kept.
at::ScalarType accumulate_type(at::ScalarType dtype);

/// Argument `i` as one number per spatial dimension; a single number applies to all.
Dims per_dimension(const Call& call, size_t i, size_t count);

/// `Rule` for the CPU only, chosen by the device of argument `Arg`. Nothing is stated about
/// kernels elsewhere.
template <Function Rule, size_t Arg = 0>
bool on_cpu(Call& call) {
  return call.tensor(Arg).is_cpu() && Rule(call);
}

/// Two outputs, both described by `Rule`.
template <Function Rule>
bool twice(Call& call) {
  return Rule(call) && Rule(call);
}

/// The layout of argument `Arg`, as in empty_like.
template <size_t Arg>
bool like_of(Call& call) {
  return call.returns(like(call.tensor(Arg)));
}

/// A copy of argument `Arg` with its holes and offset, unless its elements overlap.
template <size_t Arg>
bool exact_like(Call& call) {
  const at::Tensor& model = call.tensor(Arg);
  for (int64_t i = 0; i < model.dim(); ++i) {
    if (model.size(i) > 1 && model.stride(i) == 0) return call.returns(like(model));
  }
  return call.returns(spec_of(model));
}

/// A contiguous output with dtype and sizes of argument `Arg`.
template <size_t Arg>
bool contiguous_like(Call& call) {
  const at::Tensor& model = call.tensor(Arg);
  return call.returns(contiguous(model, model.sizes()));
}

inline constexpr Function like_first = like_of<0>;
inline constexpr Function contiguous_first = contiguous_like<0>;
inline constexpr Function contiguous_second = contiguous_like<1>;

/// A contiguous output in the memory format that the argument suggests.
template <size_t Arg>
bool format_like(Call& call) {
  const at::Tensor& model = call.tensor(Arg);
  return call.returns(in_format_of(model, model.sizes()));
}

/// Bit `bit` of the output mask at argument `i`.
bool mask(const Call& call, size_t i, size_t bit);

/// `dim` counted from the end if negative. Returns false if out of range.
bool wrap_dim(int64_t& dim, int64_t rank);

}  // namespace antegrad::shapes
