/// \file
/// Convolution. Outputs and gradients are channels-last when the input or the weight suggests it,
/// else contiguous.

#include <ATen/Context.h>

#include <algorithm>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// The memory format that a convolution argument suggests. A 1-D argument counts as an image of
/// height 1.
at::MemoryFormat suggested(at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (sizes.size() != 3) return suggest_format(sizes, strides);
  return suggest_format({sizes[0], sizes[1], 1, sizes[2]},
                        {strides[0], strides[1], sizes[2] * strides[2], strides[2]});
}

/// Sizes and the memory format of a convolution.
struct Convolution {
  /// Reads the arguments from `first`, which is the stride, on.
  bool read(const Call& call, const at::Tensor& input, const at::Tensor& weight, size_t first);
  bool output_sizes(const at::Tensor& input, const at::Tensor& weight, Dims& sizes) const;
  /// Whether results of these sizes are certainly allocated in `format`.
  bool allocates(at::IntArrayRef sizes) const;
  /// A new tensor in `format`.
  Spec allocated(at::IntArrayRef sizes, const at::Tensor& like) const;

  size_t spatial = 0;
  Dims stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  bool certain = false;  ///< computed by oneDNN or cuDNN, which follow `format` exactly
};

bool Convolution::read(const Call& call, const at::Tensor& input, const at::Tensor& weight,
                       size_t first) {
  const int64_t rank = weight.dim();
  if (rank < 3 || rank > 5 || input.dim() != rank) return false;
  // Empty inputs take another path.
  if (input.numel() == 0 || weight.numel() == 0) return false;
  if (input.scalar_type() != weight.scalar_type() || input.device() != weight.device())
    return false;
  spatial = static_cast<size_t>(rank - 2);
  stride = per_dimension(call, first, spatial);
  padding = per_dimension(call, first + 1, spatial);
  dilation = per_dimension(call, first + 2, spatial);
  transposed = call.boolean(first + 3);
  output_padding = per_dimension(call, first + 4, spatial);
  groups = call.integer(first + 5);
  for (const Dims* d : {&stride, &padding, &dilation, &output_padding}) {
    if (d->size() != spatial) return false;
  }
  if (groups <= 0 || weight.size(0) % groups != 0) return false;
  if (input.size(1) != (transposed ? weight.size(0) : weight.size(1) * groups)) return false;

  const bool plain_input = input.is_contiguous() && suggested(input.sizes(), input.strides()) ==
                                                        at::MemoryFormat::Contiguous;
  const bool plain_weight =
      suggested(weight.sizes(), weight.strides()) == at::MemoryFormat::Contiguous;
  // Backends differ in their treatment of channels-last volumes.
  if (rank == 5) return plain_input && plain_weight && weight.is_contiguous();
  // A 1-D input is made contiguous first.
  const Dims strides = rank == 3 && !input.is_contiguous()
                           ? Dims(shapes::contiguous_strides(input.sizes()))
                           : Dims(input.strides().begin(), input.strides().end());
  if (!plain_weight || suggested(input.sizes(), strides) == at::MemoryFormat::ChannelsLast) {
    format = at::MemoryFormat::ChannelsLast;
    if (input.is_cpu()) {
      certain = rank == 4 && input.scalar_type() == at::kFloat && !transposed &&
                (weight.size(2) != 1 || weight.size(3) != 1) &&
                at::globalContext().userEnabledMkldnn();
      return true;
    }
    // cuDNN follows the format; other kernels may not.
    const auto is_not_zero = [](int64_t n) { return n != 0; };
    certain = rank == 4 && input.scalar_type() != at::kDouble &&
              at::globalContext().userEnabledCuDNN() &&
              std::none_of(output_padding.begin(), output_padding.end(), is_not_zero);
    return certain;
  }
  return true;
}

/// Whether tensors of these sizes can be both contiguous and channels-last.
bool both_formats(at::IntArrayRef sizes) {
  const auto is_one = [](int64_t size) { return size == 1; };
  return sizes[1] == 1 || std::all_of(sizes.begin() + 2, sizes.end(), is_one);
}

/// If the sizes make a tensor both contiguous and channels-last, most kernels except oneDNN's use
/// contiguous strides.
bool Convolution::allocates(at::IntArrayRef sizes) const {
  return format == at::MemoryFormat::Contiguous || certain || !both_formats(sizes);
}

Spec Convolution::allocated(at::IntArrayRef sizes, const at::Tensor& like) const {
  if (spatial != 1) return fresh(sizes, like.scalar_type(), like.device(), format);
  Spec spec = fresh({sizes[0], sizes[1], 1, sizes[2]}, like.scalar_type(), like.device(), format);
  spec.sizes.erase(spec.sizes.begin() + 2);
  spec.strides.erase(spec.strides.begin() + 2);
  return spec;
}

bool Convolution::output_sizes(const at::Tensor& input, const at::Tensor& weight,
                               Dims& sizes) const {
  sizes = {input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t in = input.size(2 + i);
    const int64_t reach = dilation[i] * (weight.size(2 + i) - 1);
    if (stride[i] <= 0) return false;
    const int64_t out = transposed
                            ? (in - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1
                            : (in + 2 * padding[i] - reach - 1) / stride[i] + 1;
    if (out <= 0 || (!transposed && in + 2 * padding[i] < reach + 1)) return false;
    sizes.push_back(out);
  }
  return true;
}

bool convolution(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const at::Tensor& weight = call.tensor(1);
  Convolution conv;
  Dims sizes;
  if (!conv.read(call, input, weight, 3) || !conv.output_sizes(input, weight, sizes)) return false;
  if (!conv.allocates(sizes)) return false;
  return call.returns(conv.allocated(sizes, input));
}

bool convolution_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& input = call.tensor(1);
  const at::Tensor& weight = call.tensor(2);
  Convolution conv;
  Dims sizes;
  if (!conv.read(call, input, weight, 4) || !conv.output_sizes(input, weight, sizes)) return false;
  if (!grad.sizes().equals(sizes) || grad.scalar_type() != input.scalar_type()) return false;
  const bool wants_input = mask(call, 10, 0), wants_weight = mask(call, 10, 1),
             wants_bias = mask(call, 10, 2);
  // Some backends return the gradient of the weight whenever they compute that of the bias.
  if (wants_bias && !wants_weight) return false;
  if (wants_input && !conv.allocates(input.sizes())) return false;
  if (wants_weight && !conv.allocates(weight.sizes())) return false;
  if (wants_weight && input.is_cuda() && both_formats(weight.sizes()) && !weight.is_contiguous()) {
    return false;
  }
  return call.returns(wants_input ? conv.allocated(input.sizes(), input) : undefined(),
                      wants_weight ? conv.allocated(weight.sizes(), weight) : undefined(),
                      wants_bias ? contiguous(grad, {sizes[1]}) : undefined());
}

}  // namespace

constexpr Family convolution_family = {
    {"aten::convolution", convolution},
    {"aten::convolution_backward", convolution_backward},
};

}  // namespace antegrad::shapes
