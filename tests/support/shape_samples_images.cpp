#include <ATen/ATen.h>

#include "support/shape_sample_parts.h"
#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

/// An image with channels and `spatial` dimensions, sometimes batched.
at::Tensor image(R& r, size_t spatial = 2, int64_t smallest = 3) {
  Shape shape = r.full_shape(1, 2);
  for (size_t i = 0; i < spatial; ++i) shape.push_back(r.integer(smallest, 6));
  return r.tensor(shape, r.floating());
}

at::Tensor batched_image(R& r, size_t spatial = 2) {
  Shape shape = {r.integer(1, 3), r.integer(1, 3)};
  for (size_t i = 0; i < spatial; ++i) shape.push_back(r.integer(2, 5));
  return r.tensor(shape, r.floating());
}

Shape numbers(R& r, size_t count, int64_t low, int64_t high) {
  Shape shape;
  for (size_t i = 0; i < count; ++i) shape.push_back(r.integer(low, high));
  return shape;
}

/// Calls the operator itself: its backward needs the results.
std::vector<at::Tensor> outputs_of(const char* op, const Arguments& arguments) {
  std::vector<c10::IValue> stack = arguments;
  c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(stack);
  std::vector<at::Tensor> outputs;
  for (const auto& value : stack) outputs.push_back(value.toTensor());
  return outputs;
}

// ---- Pooling -----------------------------------------------------------------------------------

/// kernel, stride, padding and, with `dilated`, dilation; then ceil_mode.
Arguments window(R& r, bool dilated, size_t spatial) {
  const int64_t kernel = r.integer(1, 3);
  Arguments a = {r.chance(0.5) ? Shape(spatial, kernel) : Shape{kernel}};
  a.push_back(r.chance(0.3) ? Shape{} : numbers(r, spatial, 1, 2));
  a.push_back(Shape{r.integer(0, kernel / 2)});
  if (dilated) a.push_back(Shape{r.pick({1, 1, 2})});
  a.push_back(r.chance(0.4));
  return a;
}

template <size_t N>
Arguments max_pool(R& r) {
  return joined({image(r, N)}, window(r, true, N));
}

template <size_t N>
Arguments max_pool_backward(R& r) {
  Arguments a = max_pool<N>(r);
  const auto out =
      outputs_of(N == 2 ? "aten::max_pool2d_with_indices" : "aten::max_pool3d_with_indices", a);
  a.insert(a.begin(), gradient(r, out[0]));
  a.push_back(out[1]);
  return a;
}

template <size_t N>
Arguments avg_pool(R& r) {
  Arguments a = joined({image(r, N)}, window(r, false, N));
  a.push_back(r.chance(0.5));
  a.push_back({});
  return a;
}

template <size_t N>
Arguments avg_pool_backward(R& r) {
  Arguments a = avg_pool<N>(r);
  const auto out = outputs_of(N == 2 ? "aten::avg_pool2d" : "aten::avg_pool3d", a);
  a.insert(a.begin(), gradient(r, out[0]));
  return a;
}

template <size_t N>
Arguments adaptive_pool(R& r) {
  return {image(r, N), numbers(r, N, 1, 3)};
}

template <size_t N>
Arguments adaptive_pool_backward(R& r) {
  const Arguments a = adaptive_pool<N>(r);
  const auto out =
      outputs_of(N == 2 ? "aten::_adaptive_avg_pool2d" : "aten::_adaptive_avg_pool3d", a);
  return {gradient(r, out[0]), a[0]};
}

template <size_t N>
Arguments adaptive_max_pool_backward(R& r) {
  const Arguments a = adaptive_pool<N>(r);
  const auto out =
      outputs_of(N == 2 ? "aten::adaptive_max_pool2d" : "aten::adaptive_max_pool3d", a);
  return {gradient(r, out[0]), a[0], out[1]};
}

template <size_t N>
Arguments fractional_pool(R& r) {
  const at::Tensor t = image(r, N, 4);
  const bool batched = t.dim() == static_cast<int64_t>(N) + 2;
  const Shape samples = {batched ? t.size(0) : 1, t.size(batched ? 1 : 0), static_cast<int64_t>(N)};
  return {t, numbers(r, N, 1, 2), numbers(r, N, 1, 2), r.contiguous(samples, t.scalar_type())};
}

template <size_t N>
Arguments fractional_pool_backward(R& r) {
  const Arguments a = fractional_pool<N>(r);
  const auto out =
      outputs_of(N == 2 ? "aten::fractional_max_pool2d" : "aten::fractional_max_pool3d", a);
  return {gradient(r, out[0]), a[0], a[1], a[2], out[1]};
}

template <size_t N>
Arguments unpool(R& r) {
  const at::Tensor t = image(r, N);
  Arguments a = {t, at::zeros_like(t, at::kLong), numbers(r, N, 6, 8)};
  if (N == 3) a.push_back(Shape(N, 1));
  if (N == 3) a.push_back(Shape(N, 0));
  return a;
}

// ---- Sampling and padding ----------------------------------------------------------------------

template <size_t N>
Arguments grid_sample(R& r, bool backward) {
  const at::Tensor t = batched_image(r, N);
  const Shape to = numbers(r, N, 1, 4);
  Shape grid = joined({t.size(0)}, to);
  grid.push_back(static_cast<int64_t>(N));
  Arguments a = {t, r.tensor(grid, t.scalar_type()), r.integer(0, 1), r.integer(0, 2),
                 r.chance(0.5)};
  if (backward) {
    a.insert(a.begin(), r.tensor(joined({t.size(0), t.size(1)}, to), t.scalar_type()));
    a.push_back(mask(r, 2));
  }
  return a;
}

template <size_t N>
Arguments pad_images(R& r) {
  return {image(r, N), numbers(r, 2 * N, 0, 2)};
}

/// The gradient of a padding.
template <size_t N>
Arguments pad_backward(R& r) {
  const Arguments a = pad_images<N>(r);
  const at::Tensor& t = a[0].toTensor();
  const Shape by = a[1].toIntVector();
  Shape sizes = t.sizes().vec();
  for (size_t i = 0; i < N; ++i) sizes[sizes.size() - 1 - i] += by[2 * i] + by[2 * i + 1];
  return {r.tensor(sizes, t.scalar_type()), t, by};
}

template <size_t N, bool Corners>
Arguments upsample(R& r) {
  Arguments a = {batched_image(r, N), numbers(r, N, 1, 7)};
  if (Corners) a.push_back(r.chance(0.5));
  for (size_t i = 0; i < N; ++i) a.push_back({});
  return a;
}

template <size_t N, bool Corners>
Arguments upsample_backward(R& r) {
  Arguments a = upsample<N, Corners>(r);
  const at::Tensor t = a[0].toTensor();
  a[0] = r.tensor(joined({t.size(0), t.size(1)}, a[1].toIntVector()), t.scalar_type());
  a.insert(a.begin() + 2, t.sizes().vec());
  return a;
}

// ---- Rearranging -------------------------------------------------------------------------------

Arguments pixels(R& r, bool shuffle) {
  Shape shape = r.full_shape(0, 2);
  const int64_t factor = r.integer(1, 3), scale = factor * factor;
  const Shape last = {r.integer(1, 2), r.integer(1, 3), r.integer(1, 3)};
  shape.push_back(shuffle ? last[0] * scale : last[0]);
  shape.push_back(shuffle ? last[1] : last[1] * factor);
  shape.push_back(shuffle ? last[2] : last[2] * factor);
  return {r.tensor(shape, r.dtype()), factor};
}

Arguments channels(R& r) {
  const int64_t groups = r.integer(1, 3);
  const Shape shape = joined({r.integer(1, 3), groups * r.integer(1, 2)}, r.full_shape(1, 3));
  return {r.tensor(shape, r.dtype()), groups};
}

/// kernel, dilation, padding, stride.
Arguments sliding(R& r) {
  return {numbers(r, 2, 1, 3), numbers(r, 2, 1, 2), numbers(r, 2, 0, 1), numbers(r, 2, 1, 2)};
}

Arguments im2col(R& r) { return joined({image(r)}, sliding(r)); }

Arguments col2im(R& r) {
  const at::Tensor t = image(r);
  const Arguments window = sliding(r);
  const at::Tensor columns = at::im2col(t, window[0].toIntVector(), window[1].toIntVector(),
                                        window[2].toIntVector(), window[3].toIntVector());
  Shape shape = columns.sizes().vec();
  if (columns.dim() == 3 && r.chance(0.1)) shape[0] = 0;
  return joined({r.tensor(shape, t.scalar_type()), t.sizes().slice(t.dim() - 2).vec()}, window);
}

}  // namespace

const ArgumentsTable& image_samples() {
  static const ArgumentsTable table = {
      {"aten::_adaptive_avg_pool2d", adaptive_pool<2>},
      {"aten::_adaptive_avg_pool2d_backward", adaptive_pool_backward<2>},
      {"aten::_adaptive_avg_pool3d", adaptive_pool<3>},
      {"aten::_adaptive_avg_pool3d_backward", adaptive_pool_backward<3>},
      {"aten::adaptive_max_pool2d", adaptive_pool<2>},
      {"aten::adaptive_max_pool2d_backward", adaptive_max_pool_backward<2>},
      {"aten::adaptive_max_pool3d", adaptive_pool<3>},
      {"aten::adaptive_max_pool3d_backward", adaptive_max_pool_backward<3>},
      {"aten::avg_pool2d", avg_pool<2>},
      {"aten::avg_pool2d_backward", avg_pool_backward<2>},
      {"aten::avg_pool3d", avg_pool<3>},
      {"aten::avg_pool3d_backward", avg_pool_backward<3>},
      {"aten::fractional_max_pool2d", fractional_pool<2>},
      {"aten::fractional_max_pool2d_backward", fractional_pool_backward<2>},
      {"aten::fractional_max_pool3d", fractional_pool<3>},
      {"aten::fractional_max_pool3d_backward", fractional_pool_backward<3>},
      {"aten::max_pool2d_with_indices", max_pool<2>},
      {"aten::max_pool2d_with_indices_backward", max_pool_backward<2>},
      {"aten::max_pool3d_with_indices", max_pool<3>},
      {"aten::max_pool3d_with_indices_backward", max_pool_backward<3>},
      {"aten::max_unpool2d", unpool<2>},
      {"aten::max_unpool3d", unpool<3>},

      {"aten::grid_sampler_2d", [](R& r) { return grid_sample<2>(r, false); }},
      {"aten::grid_sampler_2d_backward", [](R& r) { return grid_sample<2>(r, true); }},
      {"aten::grid_sampler_3d", [](R& r) { return grid_sample<3>(r, false); }},
      {"aten::grid_sampler_3d_backward", [](R& r) { return grid_sample<3>(r, true); }},

      {"aten::reflection_pad1d", pad_images<1>},
      {"aten::reflection_pad1d_backward", pad_backward<1>},
      {"aten::reflection_pad2d", pad_images<2>},
      {"aten::reflection_pad2d_backward", pad_backward<2>},
      {"aten::reflection_pad3d", pad_images<3>},
      {"aten::reflection_pad3d_backward", pad_backward<3>},
      {"aten::replication_pad1d", pad_images<1>},
      {"aten::replication_pad1d_backward", pad_backward<1>},
      {"aten::replication_pad2d", pad_images<2>},
      {"aten::replication_pad2d_backward", pad_backward<2>},
      {"aten::replication_pad3d", pad_images<3>},
      {"aten::replication_pad3d_backward", pad_backward<3>},

      {"aten::_upsample_bicubic2d_aa", upsample<2, true>},
      {"aten::_upsample_bicubic2d_aa_backward", upsample_backward<2, true>},
      {"aten::_upsample_bilinear2d_aa", upsample<2, true>},
      {"aten::_upsample_bilinear2d_aa_backward", upsample_backward<2, true>},
      {"aten::_upsample_nearest_exact1d", upsample<1, false>},
      {"aten::_upsample_nearest_exact1d_backward", upsample_backward<1, false>},
      {"aten::_upsample_nearest_exact2d", upsample<2, false>},
      {"aten::_upsample_nearest_exact2d_backward", upsample_backward<2, false>},
      {"aten::_upsample_nearest_exact3d", upsample<3, false>},
      {"aten::_upsample_nearest_exact3d_backward", upsample_backward<3, false>},
      {"aten::upsample_bicubic2d", upsample<2, true>},
      {"aten::upsample_bicubic2d_backward", upsample_backward<2, true>},
      {"aten::upsample_bilinear2d", upsample<2, true>},
      {"aten::upsample_bilinear2d_backward", upsample_backward<2, true>},
      {"aten::upsample_linear1d", upsample<1, true>},
      {"aten::upsample_linear1d_backward", upsample_backward<1, true>},
      {"aten::upsample_nearest1d", upsample<1, false>},
      {"aten::upsample_nearest1d_backward", upsample_backward<1, false>},
      {"aten::upsample_nearest2d", upsample<2, false>},
      {"aten::upsample_nearest2d_backward", upsample_backward<2, false>},
      {"aten::upsample_nearest3d", upsample<3, false>},
      {"aten::upsample_nearest3d_backward", upsample_backward<3, false>},
      {"aten::upsample_trilinear3d", upsample<3, true>},
      {"aten::upsample_trilinear3d_backward", upsample_backward<3, true>},

      {"aten::channel_shuffle", channels},
      {"aten::col2im", col2im},
      {"aten::im2col", im2col},
      {"aten::pixel_shuffle", [](R& r) { return pixels(r, true); }},
      {"aten::pixel_unshuffle", [](R& r) { return pixels(r, false); }},
  };
  return table;
}

}  // namespace antegrad::testing
