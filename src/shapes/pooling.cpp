/// \file
/// Pooling over two and three dimensions: windows, adaptive, fractional, and unpooling. Outputs are
/// contiguous or in the memory format that the input suggests.

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

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

/// Whether `self` has channels and `N` spatial dimensions, possibly batched, of which only the
/// batch may be empty.
template <size_t N>
bool is_image(const at::Tensor& self) {
  const auto rank = static_cast<size_t>(self.dim());
  if (rank != N + 1 && rank != N + 2) return false;
  for (int64_t i = self.dim() - static_cast<int64_t>(N) - 1; i < self.dim(); ++i) {
    if (self.size(i) == 0) return false;
  }
  return true;
}

/// Batch and channels of `self` with other spatial sizes.
Dims resized(const at::Tensor& self, at::IntArrayRef spatial) {
  Dims sizes(self.sizes().begin(), self.sizes().end() - static_cast<int64_t>(spatial.size()));
  sizes.append(spatial.begin(), spatial.end());
  return sizes;
}

/// Sizes of a pool over the last `N` dimensions. Arguments 1, 2, 3: kernel, stride, padding.
template <size_t N>
bool pooled_sizes(const Call& call, const at::Tensor& self, bool dilated, size_t ceil,
                  Dims& sizes) {
  if (!is_image<N>(self)) return false;
  const Dims kernel = per_dimension(call, 1, N);
  Dims stride = per_dimension(call, 2, N);
  const Dims padding = per_dimension(call, 3, N);
  const Dims dilation = dilated ? per_dimension(call, 4, N) : Dims(N, 1);
  if (stride.empty()) stride = kernel;
  Dims spatial;
  for (size_t i = 0; i < N; ++i) {
    if (kernel[i] <= 0 || stride[i] <= 0 || dilation[i] <= 0 || padding[i] < 0 ||
        padding[i] > kernel[i] / 2) {
      return false;
    }
    const int64_t in = self.size(self.dim() - static_cast<int64_t>(N - i));
    const int64_t out =
        pooled_size(in, kernel[i], padding[i], stride[i], dilation[i], call.boolean(ceil));
    if (out <= 0) return false;
    spatial.push_back(out);
  }
  sizes = resized(self, spatial);
  return true;
}

template <size_t N>
bool max_pool(Call& call) {
  const at::Tensor& self = call.tensor(0);
  Dims sizes;
  if (!pooled_sizes<N>(call, self, true, 5, sizes)) return false;
  const Spec out = in_format_of(self, sizes);
  return call.returns(out, with_dtype(out, at::kLong));
}

template <size_t N>
bool avg_pool(Call& call) {
  const at::Tensor& self = call.tensor(0);
  Dims sizes;
  return pooled_sizes<N>(call, self, false, 4, sizes) &&
         call.returns(N == 2 ? in_format_of(self, sizes) : contiguous(self, sizes));
}

/// Argument `Sizes` has the spatial sizes. With `Outputs` of 2, indices follow.
template <size_t N, size_t Sizes, size_t Outputs, bool KeepsFormat>
bool to_sizes(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const Dims spatial = per_dimension(call, Sizes, N);
  if (!is_image<N>(self) || spatial.size() != N) return false;
  const Dims sizes = resized(self, spatial);
  const Spec out = KeepsFormat ? in_format_of(self, sizes) : contiguous(self, sizes);
  call.returns(out);
  if constexpr (Outputs == 2) call.returns(with_dtype(out, at::kLong));
  return true;
}

/// `Rule` for batched inputs only: unbatched ones follow special rules for channels-last.
template <Function Rule, size_t Arg>
bool of_batch(Call& call) {
  return call.tensor(Arg).dim() == 5 && Rule(call);
}

bool adaptive_avg_pool2d_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const bool contiguous =
      suggest_format(self.sizes(), self.strides()) == at::MemoryFormat::Contiguous;
  return (self.is_cpu() || contiguous) && format_like<1>(call);
}

}  // namespace

constexpr Family pooling_family = {
    {"aten::_adaptive_avg_pool2d", to_sizes<2, 1, 1, true>},
    {"aten::_adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward},
    {"aten::_adaptive_avg_pool3d", on_cpu<to_sizes<3, 1, 1, false>>},
    {"aten::_adaptive_avg_pool3d_backward", on_cpu<contiguous_second>},
    {"aten::adaptive_max_pool2d", to_sizes<2, 1, 2, true>},
    {"aten::adaptive_max_pool2d_backward", format_like<1>},
    {"aten::adaptive_max_pool3d", to_sizes<3, 1, 2, false>},
    {"aten::adaptive_max_pool3d_backward", contiguous_second},
    {"aten::avg_pool2d", avg_pool<2>},
    {"aten::avg_pool2d_backward", format_like<1>},
    {"aten::avg_pool3d", avg_pool<3>},
    {"aten::avg_pool3d_backward", contiguous_second},
    {"aten::fractional_max_pool2d", to_sizes<2, 2, 2, false>},
    {"aten::fractional_max_pool2d_backward", contiguous_second},
    {"aten::fractional_max_pool3d", to_sizes<3, 2, 2, false>},
    {"aten::fractional_max_pool3d_backward", on_cpu<contiguous_second>},
    {"aten::max_pool2d_with_indices", max_pool<2>},
    {"aten::max_pool2d_with_indices_backward", format_like<1>},
    {"aten::max_pool3d_with_indices", on_cpu<of_batch<max_pool<3>, 0>>},
    {"aten::max_pool3d_with_indices_backward", on_cpu<of_batch<format_like<1>, 1>>},
    {"aten::max_unpool2d", on_cpu<to_sizes<2, 2, 1, true>>},
    {"aten::max_unpool3d", on_cpu<to_sizes<3, 2, 1, false>>},
};

}  // namespace antegrad::shapes
