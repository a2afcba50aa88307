/// \file
/// Reductions, scans and softmax. Reductions return contiguous outputs whatever the input's layout:
/// libtorch allocates them before the iterator sees them.

#include <c10/core/DefaultDtype.h>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

constexpr size_t kNone = ~size_t{0};  ///< no such argument

/// The dtype of a reduction's result if the call does not give one.
enum class Result { kSame, kSum, kBool, kLong, kFloating, kPromoted };

at::ScalarType result_dtype(Result rule, at::ScalarType self) {
  switch (rule) {
    case Result::kSame:
    case Result::kFloating: return self;
    case Result::kSum: return c10::isIntegralType(self, /*includeBool=*/true) ? at::kLong : self;
    case Result::kBool: return self == at::kByte ? at::kByte : at::kBool;
    case Result::kLong: return at::kLong;
    case Result::kPromoted: return c10::isIntegralType(self, true) ? default_dtype() : self;
  }
  return self;
}

/// The shape after reducing the dimensions `reduced`; an empty list means all.
bool reduced_shape(const at::Tensor& self, at::DimVector reduced, bool keepdim, Dims& sizes) {
  const int64_t rank = self.dim();
  c10::SmallVector<bool, 6> drop(rank, reduced.empty());
  for (int64_t dim : reduced) {
    if (!wrap_dim(dim, rank)) return false;
    if (rank == 0) continue;
    if (drop[dim]) return false;  // listed twice
    drop[dim] = true;
  }
  for (int64_t i = 0; i < rank; ++i) {
    if (!drop[i]) {
      sizes.push_back(self.size(i));
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  return true;
}

/// The dimensions of argument `i`: a list, one number or None.
at::DimVector dims_at(const Call& call, size_t i) {
  if (i == kNone || call.is_none(i)) return {};
  if (call.arg(i).isInt()) return {call.integer(i)};
  return call.arg(i).toDimVector();
}

/// One contiguous output. `Dim`, `Keep` and `Dtype` are argument positions, or kNone.
template <Result R, size_t Dim = kNone, size_t Keep = kNone, size_t Dtype = kNone>
bool reduce(Call& call) {
  const at::Tensor& self = call.tensor(0);
  at::ScalarType dtype = result_dtype(R, self.scalar_type());
  if constexpr (Dtype != kNone) dtype = call.dtype(Dtype).value_or(dtype);
  if (R == Result::kFloating && !c10::isFloatingType(dtype) && !c10::isComplexType(dtype)) {
    return false;
  }
  Dims sizes;
  const bool keep = Keep != kNone && call.boolean(Keep);
  if (!reduced_shape(self, dims_at(call, Dim), keep, sizes)) return false;
  return call.returns(fresh(sizes, dtype, self.device()));
}

/// Values and their indices (max.dim, median.dim, …).
template <size_t Dim>
bool values_and_indices(Call& call) {
  const at::Tensor& self = call.tensor(0);
  Dims sizes;
  if (!reduced_shape(self, dims_at(call, Dim), call.boolean(Dim + 1), sizes)) return false;
  return call.returns(contiguous(self, sizes), fresh(sizes, at::kLong, self.device()));
}

/// An empty list of dimensions means none here, and takes another path.
bool truth_of_dims(Call& call) {
  if (!call.is_none(1) && call.arg(1).toListRef().empty()) return false;
  return reduce<Result::kBool, 1, 2>(call);
}

/// Complex numbers give real results on other paths.
template <Function Rule>
bool of_real(Call& call) {
  return !call.tensor(0).is_complex() && Rule(call);
}

bool logsumexp(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const bool integral = c10::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  return (self.is_cpu() || !integral) && reduce<Result::kPromoted, 1, 2>(call);
}

/// Contiguous, with the shape of argument 0. Argument `Dtype` gives the dtype; integers are summed
/// as int64.
bool scan(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::ScalarType dtype = result_dtype(Result::kSum, self.scalar_type());
  return call.returns(fresh(self.sizes(), call.dtype(2).value_or(dtype), self.device()));
}

bool scan_with_indices(Call& call) {
  const at::Tensor& self = call.tensor(0);
  return call.returns(contiguous(self, self.sizes()),
                      fresh(self.sizes(), at::kLong, self.device()));
}

bool trace(Call& call) { return call.tensor(0).dim() == 2 && reduce<Result::kSum>(call); }

bool softmax(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const bool to_float = call.boolean(2);
  if (to_float && (self.scalar_type() != at::kHalf && self.scalar_type() != at::kBFloat16)) {
    return false;
  }
  return call.returns(
      fresh(self.sizes(), to_float ? at::kFloat : self.scalar_type(), self.device()));
}

/// Selects between softmax and zero by fully masked rows. The effect on other layouts is left to
/// the kernel.
bool safe_softmax(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!call.is_none(2) || !self.is_contiguous() || !self.is_floating_point()) return false;
  return call.returns(contiguous(self, self.sizes()));
}

bool softmax_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  if (call.tensor(1).scalar_type() != grad.scalar_type()) return false;
  if (call.arg(3).toScalarType() != grad.scalar_type()) return false;
  return call.returns(contiguous(grad, grad.sizes()));
}

/// Minimum and maximum, over argument 1 or over everything.
bool aminmax(Call& call) {
  // Over everything, the CUDA kernel ignores keepdim.
  if (!call.tensor(0).is_cpu() && call.is_none(1)) return false;
  return twice<reduce<Result::kSame, 1, 2>>(call);
}

bool histc(Call& call) {
  const at::Tensor& self = call.tensor(0);
  return self.is_cpu() && self.is_floating_point() &&
         call.returns(contiguous(self, {call.integer(1)}));
}

/// The norm of a difference.
bool dist(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!self.is_floating_point() || self.unsafeGetTensorImpl()->is_wrapped_number()) return false;
  return self.scalar_type() == call.tensor(1).scalar_type() && call.returns(contiguous(self, {}));
}

}  // namespace

constexpr Family reduction_family = {
    {"aten::all", reduce<Result::kBool>},
    {"aten::all.dim", reduce<Result::kBool, 1, 2>},
    {"aten::all.dims", truth_of_dims},
    {"aten::amax", reduce<Result::kSame, 1, 2>},
    {"aten::amin", reduce<Result::kSame, 1, 2>},
    {"aten::aminmax", aminmax},
    {"aten::any", reduce<Result::kBool>},
    {"aten::any.dim", reduce<Result::kBool, 1, 2>},
    {"aten::any.dims", truth_of_dims},
    {"aten::argmax", reduce<Result::kLong, 1, 2>},
    {"aten::argmin", reduce<Result::kLong, 1, 2>},
    {"aten::count_nonzero", reduce<Result::kLong, 1>},
    {"aten::count_nonzero.dim_IntList", reduce<Result::kLong, 1>},
    {"aten::dist", dist},
    {"aten::histc", histc},
    {"aten::kthvalue", values_and_indices<2>},
    {"aten::linalg_vector_norm", of_real<reduce<Result::kFloating, 2, 3, 4>>},
    {"aten::logsumexp", logsumexp},
    {"aten::max", reduce<Result::kSame>},
    {"aten::max.dim", values_and_indices<1>},
    {"aten::mean", reduce<Result::kFloating, kNone, kNone, 1>},
    {"aten::mean.dim", reduce<Result::kFloating, 1, 2, 3>},
    {"aten::min", reduce<Result::kSame>},
    {"aten::median", reduce<Result::kSame>},
    {"aten::median.dim", values_and_indices<1>},
    {"aten::min.dim", values_and_indices<1>},
    {"aten::mode", values_and_indices<1>},
    {"aten::nanmedian", reduce<Result::kSame>},
    {"aten::nanmedian.dim", values_and_indices<1>},
    {"aten::nansum", reduce<Result::kSum, 1, 2, 3>},
    {"aten::norm.Scalar", of_real<reduce<Result::kFloating>>},
    {"aten::norm.ScalarOpt_dim", of_real<reduce<Result::kFloating, 2, 3>>},
    {"aten::norm.ScalarOpt_dim_dtype", of_real<reduce<Result::kFloating, 2, 3, 4>>},
    {"aten::prod", reduce<Result::kSum, kNone, kNone, 1>},
    {"aten::prod.dim_int", reduce<Result::kSum, 1, 2, 3>},
    {"aten::renorm", contiguous_first},
    {"aten::std.correction", of_real<reduce<Result::kFloating, 1, 3>>},
    {"aten::std_mean.correction", of_real<twice<reduce<Result::kFloating, 1, 3>>>},
    {"aten::sum", reduce<Result::kSum, kNone, kNone, 1>},
    {"aten::sum.dim_IntList", reduce<Result::kSum, 1, 2, 3>},
    {"aten::trace", trace},
    {"aten::var.correction", of_real<reduce<Result::kFloating, 1, 3>>},
    {"aten::var_mean.correction", of_real<twice<reduce<Result::kFloating, 1, 3>>>},

    {"aten::cummax", scan_with_indices},
    {"aten::cummin", scan_with_indices},
    {"aten::cumprod", scan},
    {"aten::cumsum", scan},
    {"aten::logcumsumexp", contiguous_first},

    {"aten::_log_softmax", softmax},
    {"aten::_log_softmax_backward_data", softmax_backward},
    {"aten::_safe_softmax", safe_softmax},
    {"aten::_softmax", softmax},
    {"aten::_softmax_backward_data", softmax_backward},
};

}  // namespace antegrad::shapes
