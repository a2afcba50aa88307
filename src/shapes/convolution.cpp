/// \file
/// Convolution, pooling and upsampling. All follow one rule of layout: outputs and gradients are
/// channels-last when the input (for a convolution: or the weight) suggests it, else contiguous.

#include <ATen/Context.h>

#include <algorithm>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// Argument `i` as one number per spatial dimension; a single number stands for all.
Dims per_dimension(const Call& call, size_t i, size_t count) {
  const at::DimVector given = call.arg(i).toDimVector();
  if (given.size() == 1) return Dims(count, given[0]);
  return Dims(given.begin(), given.end());
}

// ---- Convolution -------------------------------------------------------------------------------

/// The format that a convolution argument suggests; a 1-D one counts as an image of height 1.
at::MemoryFormat suggested(at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (sizes.size() != 3) return suggest_format(sizes, strides);
  return suggest_format({sizes[0], sizes[1], 1, sizes[2]},
                        {strides[0], strides[1], sizes[2] * strides[2], strides[2]});
}

/// Sizes and the memory format of a convolution.
struct Convolution {
  /// Reads the arguments from `first`, the stride, on.
  bool read(const Call& call, const at::Tensor& input, const at::Tensor& weight, size_t first);
  bool output_sizes(const at::Tensor& input, const at::Tensor& weight, Dims& sizes) const;
  /// Whether it is certain that results of these sizes are allocated in `format`.
  bool allocates(at::IntArrayRef sizes) const;
  /// A fresh tensor in `format`.
  Spec allocated(at::IntArrayRef sizes, const at::Tensor& like) const;

  size_t spatial = 0;
  Dims stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  bool certain = false;  ///< computed by oneDNN or cuDNN, which follow `format` to the letter
};

bool Convolution::read(const Call& call, const at::Tensor& input, const at::Tensor& weight,
                       size_t first) {
  const int64_t rank = weight.dim();
  if (rank < 3 || rank > 5 || input.dim() != rank) return false;
  // Empty inputs take a way of their own.
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
  // Backends differ in what they do with channels-last volumes.
  if (rank == 5) return plain_input && plain_weight && weight.is_contiguous();
  // A 1-D input is made contiguous first.
  const Dims strides = rank == 3 && !input.is_contiguous()
                           ? shapes::contiguous_strides(input.sizes())
                           : Dims(input.strides().begin(), input.strides().end());
  if (!plain_weight || suggested(input.sizes(), strides) == at::MemoryFormat::ChannelsLast) {
    format = at::MemoryFormat::ChannelsLast;
    if (input.is_cpu()) {
      certain = rank == 4 && input.scalar_type() == at::kFloat && !transposed &&
                (weight.size(2) != 1 || weight.size(3) != 1) &&
                at::globalContext().userEnabledMkldnn();
      return true;
    }
    // cuDNN follows the format; where another kernel may run, it depends.
    const auto is_not_zero = [](int64_t n) { return n != 0; };
    certain = rank == 4 && input.scalar_type() != at::kDouble &&
              at::globalContext().userEnabledCuDNN() &&
              std::none_of(output_padding.begin(), output_padding.end(), is_not_zero);
    return certain;
  }
  return true;
}

/// Where sizes make a tensor contiguous and channels-last at once, other kernels than oneDNN's give
/// it contiguous strides, mostly.
bool Convolution::allocates(at::IntArrayRef sizes) const {
  if (format == at::MemoryFormat::Contiguous || certain) return true;
  const auto is_one = [](int64_t size) { return size == 1; };
  return sizes[1] != 1 && !std::all_of(sizes.begin() + 2, sizes.end(), is_one);
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
  const at::Tensor& input = call.arg(0).toTensor();
  const at::Tensor& weight = call.arg(1).toTensor();
  Convolution conv;
  Dims sizes;
  if (!conv.read(call, input, weight, 3) || !conv.output_sizes(input, weight, sizes)) return false;
  if (!conv.allocates(sizes)) return false;
  call.returns(conv.allocated(sizes, input));
  return true;
}

bool convolution_backward(Call& call) {
  const at::Tensor& grad = call.arg(0).toTensor();
  const at::Tensor& input = call.arg(1).toTensor();
  const at::Tensor& weight = call.arg(2).toTensor();
  Convolution conv;
  Dims sizes;
  if (!conv.read(call, input, weight, 4) || !conv.output_sizes(input, weight, sizes)) return false;
  if (!grad.sizes().equals(sizes) || grad.scalar_type() != input.scalar_type()) return false;
  const bool wants_input = mask(call, 10, 0), wants_weight = mask(call, 10, 1),
             wants_bias = mask(call, 10, 2);
  // Some backends return the gradient of the weight wherever they compute that of the bias.
  if (wants_bias && !wants_weight) return false;
  if (wants_input && !conv.allocates(input.sizes())) return false;
  if (wants_weight && !conv.allocates(weight.sizes())) return false;
  call.returns(wants_input ? conv.allocated(input.sizes(), input) : undefined());
  call.returns(wants_weight ? conv.allocated(weight.sizes(), weight) : undefined());
  call.returns(wants_bias ? contiguous(grad, {sizes[1]}) : undefined());
  return true;
}

// ---- Pooling -----------------------------------------------------------------------------------

/// Division that rounds towards negative infinity.
int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

int64_t pooled_size(int64_t in, int64_t kernel, int64_t padding, int64_t stride, int64_t dilation,
                    bool ceil_mode) {
  const int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  int64_t out = floor_divide(room + (ceil_mode ? stride - 1 : 0), stride) + 1;
  // The last window must start inside the input or its left padding.
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  return out;
}

/// Sizes of a pool over the last two dimensions; kernel, stride, padding at 1, 2, 3.
bool pooled_sizes(const Call& call, const at::Tensor& self, bool dilated, size_t ceil,
                  Dims& sizes) {
  if (self.dim() != 3 && self.dim() != 4) return false;
  for (int64_t i = 1; i < self.dim(); ++i) {
    if (self.size(i) == 0) return false;
  }
  const Dims kernel = per_dimension(call, 1, 2);
  Dims stride = per_dimension(call, 2, 2);
  const Dims padding = per_dimension(call, 3, 2);
  const Dims dilation = dilated ? per_dimension(call, 4, 2) : Dims{1, 1};
  if (stride.empty()) stride = kernel;
  sizes.assign(self.sizes().begin(), self.sizes().end() - 2);
  for (size_t i = 0; i < 2; ++i) {
    if (kernel[i] <= 0 || stride[i] <= 0 || dilation[i] <= 0 || padding[i] < 0 ||
        padding[i] > kernel[i] / 2) {
      return false;
    }
    const int64_t in = self.size(self.dim() - 2 + static_cast<int64_t>(i));
    const int64_t out =
        pooled_size(in, kernel[i], padding[i], stride[i], dilation[i], call.boolean(ceil));
    if (out <= 0) return false;
    sizes.push_back(out);
  }
  return true;
}

/// A fresh tensor with the dtype and the suggested format of `self`.
Spec in_format_of(const at::Tensor& self, at::IntArrayRef sizes) {
  return fresh(sizes, self.scalar_type(), self.device(),
               suggest_format(self.sizes(), self.strides()));
}

bool max_pool2d_with_indices(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  Dims sizes;
  if (!pooled_sizes(call, self, true, 5, sizes)) return false;
  call.returns(in_format_of(self, sizes));
  call.returns(with_dtype(in_format_of(self, sizes), at::kLong));
  return true;
}

bool avg_pool2d(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  Dims sizes;
  if (!pooled_sizes(call, self, false, 4, sizes)) return false;
  call.returns(in_format_of(self, sizes));
  return true;
}

/// The gradient of argument 1, in its suggested format.
bool gradient_of_second(Call& call) {
  const at::Tensor& self = call.arg(1).toTensor();
  call.returns(in_format_of(self, self.sizes()));
  return true;
}

bool adaptive_avg_pool2d(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  if (self.dim() != 3 && self.dim() != 4) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end() - 2);
  for (const int64_t size : call.arg(1).toDimVector()) sizes.push_back(size);
  if (static_cast<int64_t>(sizes.size()) != self.dim()) return false;
  call.returns(in_format_of(self, sizes));
  return true;
}

bool adaptive_avg_pool2d_backward(Call& call) {
  const at::Tensor& self = call.arg(1).toTensor();
  const bool contiguous =
      suggest_format(self.sizes(), self.strides()) == at::MemoryFormat::Contiguous;
  return (self.is_cpu() || contiguous) && gradient_of_second(call);
}

// ---- Upsampling --------------------------------------------------------------------------------

bool upsample2d(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const at::DimVector size = call.arg(1).toDimVector();
  if (self.dim() != 4 || size.size() != 2) return false;
  call.returns(in_format_of(self, {self.size(0), self.size(1), size[0], size[1]}));
  return true;
}

bool upsample2d_backward(Call& call) {
  const at::Tensor& grad = call.arg(0).toTensor();
  if (grad.dim() != 4) return false;
  call.returns(in_format_of(grad, call.arg(2).toDimVector()));
  return true;
}

// ---- Rearranging images -------------------------------------------------------------------------

bool reflection_pad2d(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const at::DimVector pad = call.arg(1).toDimVector();
  if (!self.is_cpu() || self.dim() < 3 || self.dim() > 4 || pad.size() != 4) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes.end()[-1] += pad[0] + pad[1];
  sizes.end()[-2] += pad[2] + pad[3];
  call.returns(in_format_of(self, sizes));
  return true;
}

bool pixel_shuffle(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const int64_t factor = call.integer(1);
  if (!self.is_cpu() || self.dim() < 3 || factor <= 0 || self.numel() == 0) return false;
  if (self.size(-3) % (factor * factor) != 0) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes.end()[-3] /= factor * factor;
  sizes.end()[-2] *= factor;
  sizes.end()[-1] *= factor;
  call.returns(in_format_of(self, sizes));
  return true;
}

bool pixel_unshuffle(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const int64_t factor = call.integer(1);
  if (!self.is_cpu() || self.dim() < 3 || factor <= 0 || self.numel() == 0) return false;
  if (self.size(-2) % factor != 0 || self.size(-1) % factor != 0) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes.end()[-3] *= factor * factor;
  sizes.end()[-2] /= factor;
  sizes.end()[-1] /= factor;
  call.returns(in_format_of(self, sizes));
  return true;
}

bool grid_sampler_2d(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const at::Tensor& grid = call.arg(1).toTensor();
  if (self.dim() != 4 || grid.dim() != 4 || grid.size(0) != self.size(0)) return false;
  call.returns(contiguous(self, {self.size(0), self.size(1), grid.size(1), grid.size(2)}));
  return true;
}

bool grid_sampler_2d_backward(Call& call) {
  const at::Tensor& self = call.arg(1).toTensor();
  const at::Tensor& grid = call.arg(2).toTensor();
  call.returns(mask(call, 6, 0) ? contiguous(self, self.sizes()) : undefined());
  call.returns(contiguous(grid, grid.sizes()));
  return true;
}

constexpr Entry kTable[] = {
    {"aten::convolution", convolution},
    {"aten::convolution_backward", convolution_backward},

    {"aten::_adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"aten::_adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward},
    {"aten::avg_pool2d", avg_pool2d},
    {"aten::avg_pool2d_backward", gradient_of_second},
    {"aten::max_pool2d_with_indices", max_pool2d_with_indices},
    {"aten::max_pool2d_with_indices_backward", gradient_of_second},

    {"aten::grid_sampler_2d", grid_sampler_2d},
    {"aten::grid_sampler_2d_backward", grid_sampler_2d_backward},
    {"aten::pixel_shuffle", pixel_shuffle},
    {"aten::pixel_unshuffle", pixel_unshuffle},
    {"aten::reflection_pad2d", reflection_pad2d},

    {"aten::upsample_bilinear2d", upsample2d},
    {"aten::upsample_bilinear2d_backward", upsample2d_backward},
    {"aten::upsample_nearest2d", upsample2d},
    {"aten::upsample_nearest2d_backward", upsample2d_backward},
};

}  // namespace

std::span<const Entry> conv_pool_family() { return kTable; }

}  // namespace antegrad::shapes
