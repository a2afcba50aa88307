/// \file
/// Resizing and rearranging images and volumes: upsampling, grid sampling, padding, windows as
/// columns, shuffles of channels and pixels.

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

// ---- Upsampling --------------------------------------------------------------------------------

/// Resizes to the sizes in argument 1, in the memory format that the input suggests.
template <size_t N>
bool upsample(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector size = call.arg(1).toDimVector();
  if (static_cast<size_t>(self.dim()) != N + 2 || size.size() != N) return false;
  Dims sizes = {self.size(0), self.size(1)};
  sizes.append(size.begin(), size.end());
  return call.returns(in_format_of(self, sizes));
}

/// A gradient with the sizes in argument 2. Not all kernels keep the format of the gradient in
/// argument 0.
template <size_t N, bool KeepsFormat>
bool upsample_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::DimVector sizes = call.arg(2).toDimVector();
  if (static_cast<size_t>(grad.dim()) != N + 2 || sizes.size() != N + 2) return false;
  return call.returns(KeepsFormat ? in_format_of(grad, sizes) : contiguous(grad, sizes));
}

// ---- Sampling at a grid ------------------------------------------------------------------------

template <size_t N>
bool grid_sampler(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& grid = call.tensor(1);
  const auto rank = static_cast<int64_t>(N + 2);
  if (self.dim() != rank || grid.dim() != rank || grid.size(0) != self.size(0)) return false;
  Dims sizes = {self.size(0), self.size(1)};
  sizes.append(grid.sizes().begin() + 1, grid.sizes().end() - 1);
  return call.returns(contiguous(self, sizes));
}

bool grid_sampler_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const at::Tensor& grid = call.tensor(2);
  return call.returns(mask(call, 6, 0) ? contiguous(self, self.sizes()) : undefined(),
                      contiguous(grid, grid.sizes()));
}

// ---- Padding -----------------------------------------------------------------------------------

/// Pads by argument 1: two numbers per dimension, the last dimension first.
template <size_t N>
bool pad(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector by = call.arg(1).toDimVector();
  const auto rank = static_cast<size_t>(self.dim());
  if ((rank != N + 1 && rank != N + 2) || by.size() != 2 * N) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (size_t i = 0; i < N; ++i) {
    int64_t& size = sizes[rank - 1 - i];
    size += by[2 * i] + by[2 * i + 1];
    if (size <= 0) return false;
  }
  return call.returns(in_format_of(self, sizes));
}

// ---- Windows as columns ------------------------------------------------------------------------

/// The number of positions of a window along one dimension.
int64_t places(int64_t size, int64_t kernel, int64_t dilation, int64_t padding, int64_t stride) {
  if (kernel <= 0 || dilation <= 0 || padding < 0 || stride <= 0) return 0;
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

/// Arguments from 1 on: kernel, dilation, padding, stride.
bool im2col(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.dim() != 3 && self.dim() != 4) return false;
  Dims window[4];
  for (size_t i = 0; i < 4; ++i) window[i] = per_dimension(call, 1 + i, 2);
  int64_t count = 1, area = 1;
  for (size_t i = 0; i < 2; ++i) {
    area *= window[0][i];
    count *= places(self.size(self.dim() - 2 + static_cast<int64_t>(i)), window[0][i], window[1][i],
                    window[2][i], window[3][i]);
  }
  if (count == 0) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end() - 3);
  sizes.push_back(self.size(-3) * area);
  sizes.push_back(count);
  return call.returns(contiguous(self, sizes));
}

bool col2im(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const Dims size = per_dimension(call, 1, 2), kernel = per_dimension(call, 2, 2);
  if (self.dim() != 2 && self.dim() != 3) return false;
  const int64_t area = kernel[0] * kernel[1];
  if (area <= 0 || self.size(-2) % area != 0 || self.size(-1) == 0) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end() - 2);
  sizes.append({self.size(-2) / area, size[0], size[1]});
  return call.returns(contiguous(self, sizes));
}

// ---- Rearranging -------------------------------------------------------------------------------

bool channel_shuffle(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t groups = call.integer(1);
  if (self.dim() < 3 || groups <= 0 || self.size(1) % groups != 0 || self.numel() == 0)
    return false;
  return format_like<0>(call);
}

/// Moves factor² channels into each pixel's place, or the other way round.
template <bool IntoImage>
bool pixel_shuffle(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t factor = call.integer(1);
  if (!self.is_cpu() || self.dim() < 3 || factor <= 0 || self.numel() == 0) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (const int dim : {-3, -2, -1}) {
    int64_t& size = sizes.end()[dim];
    const bool channels = dim == -3, grows = channels != IntoImage;
    const int64_t by = channels ? factor * factor : factor;
    if (!grows && size % by != 0) return false;
    size = grows ? size * by : size / by;
  }
  return call.returns(in_format_of(self, sizes));
}

}  // namespace

constexpr Family image_family = {
    {"aten::_upsample_bicubic2d_aa", upsample<2>},
    {"aten::_upsample_bicubic2d_aa_backward", upsample_backward<2, false>},
    {"aten::_upsample_bilinear2d_aa", upsample<2>},
    {"aten::_upsample_bilinear2d_aa_backward", upsample_backward<2, true>},
    {"aten::_upsample_nearest_exact1d", upsample<1>},
    {"aten::_upsample_nearest_exact1d_backward", upsample_backward<1, false>},
    {"aten::_upsample_nearest_exact2d", upsample<2>},
    {"aten::_upsample_nearest_exact2d_backward", upsample_backward<2, true>},
    {"aten::_upsample_nearest_exact3d", upsample<3>},
    {"aten::_upsample_nearest_exact3d_backward", upsample_backward<3, false>},
    {"aten::upsample_bicubic2d", upsample<2>},
    {"aten::upsample_bicubic2d_backward", upsample_backward<2, false>},
    {"aten::upsample_bilinear2d", upsample<2>},
    {"aten::upsample_bilinear2d_backward", upsample_backward<2, true>},
    {"aten::upsample_linear1d", upsample<1>},
    {"aten::upsample_linear1d_backward", upsample_backward<1, false>},
    {"aten::upsample_nearest1d", upsample<1>},
    {"aten::upsample_nearest1d_backward", upsample_backward<1, false>},
    {"aten::upsample_nearest2d", upsample<2>},
    {"aten::upsample_nearest2d_backward", upsample_backward<2, true>},
    {"aten::upsample_nearest3d", upsample<3>},
    {"aten::upsample_nearest3d_backward", upsample_backward<3, false>},
    {"aten::upsample_trilinear3d", upsample<3>},
    {"aten::upsample_trilinear3d_backward", upsample_backward<3, true>},

    {"aten::grid_sampler_2d", grid_sampler<2>},
    {"aten::grid_sampler_2d_backward", grid_sampler_backward},
    {"aten::grid_sampler_3d", grid_sampler<3>},
    {"aten::grid_sampler_3d_backward", on_cpu<grid_sampler_backward>},

    {"aten::reflection_pad1d", on_cpu<pad<1>>},
    {"aten::reflection_pad1d_backward", on_cpu<contiguous_second>},
    {"aten::reflection_pad2d", on_cpu<pad<2>>},
    {"aten::reflection_pad2d_backward", on_cpu<format_like<1>>},
    {"aten::reflection_pad3d", on_cpu<pad<3>>},
    {"aten::reflection_pad3d_backward", on_cpu<format_like<1>>},
    {"aten::replication_pad1d", on_cpu<pad<1>>},
    {"aten::replication_pad1d_backward", on_cpu<contiguous_second>},
    {"aten::replication_pad2d", on_cpu<pad<2>>},
    {"aten::replication_pad2d_backward", on_cpu<format_like<1>>},
    {"aten::replication_pad3d", on_cpu<pad<3>>},
    {"aten::replication_pad3d_backward", on_cpu<format_like<1>>},

    {"aten::col2im", on_cpu<col2im>},
    {"aten::im2col", on_cpu<im2col>},

    {"aten::channel_shuffle", on_cpu<channel_shuffle>},
    {"aten::pixel_shuffle", pixel_shuffle<true>},
    {"aten::pixel_unshuffle", pixel_shuffle<false>},
};

}  // namespace antegrad::shapes
