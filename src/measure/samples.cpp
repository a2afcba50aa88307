#include "measure/samples.h"

#include <ATen/ops/_batch_norm_impl_index.h>
#include <ATen/ops/_batch_norm_impl_index_backward.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <array>

#include "torch_compat/convert.h"

namespace antegrad::measuring {
namespace {

using Kind = KernelKind;

struct Maker {
  KernelKind kind;
  c10::Device device;
  at::ScalarType dtype;
  bool channels_last;
  KernelForm form;
  size_t size;

  // Values that kernels take no shortcuts for, and that stay finite in products.
  at::Tensor tensor(at::IntArrayRef sizes) const {
    auto made = at::empty(sizes, at::TensorOptions(device).dtype(dtype));
    if (channels_last && sizes.size() == 4) {
      made = at::empty(sizes, made.options().memory_format(at::MemoryFormat::ChannelsLast));
    }
    // Products of constant data draw less power on a GPU, which then runs faster.
    return device.is_cpu() ? made.fill_(0.37) : made.normal_();
  }
};

double bytes_of(std::initializer_list<at::Tensor> tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) sum += static_cast<double>(tensor.nbytes());
  return sum;
}

template <class Sizes>
auto step(const Sizes& sizes, const Maker& maker) {
  return maker.size < std::size(sizes) ? std::optional(sizes[maker.size]) : std::nullopt;
}

std::optional<Sample> product_sample(const Maker& maker) {
  const auto n = step(std::to_array<int64_t>({64, 256, 512, 1024, 2048, 4096}), maker);
  if (!n) return std::nullopt;
  const auto a = maker.tensor({*n, *n}), b = maker.tensor({*n, *n});
  const auto side = static_cast<double>(*n);
  return Sample{2 * side * side * side, [=] { at::mm(a, b); }};
}

/// Images and a square kernel.
struct Convolution {
  int64_t count, in, out, side, kernel, stride;
};

std::optional<Convolution> convolution_of(const Maker& maker) {
  const bool narrow =
      maker.kind == Kind::convolution_1x1 || maker.kind == Kind::convolution_1x1_backward;
  const auto one_of = [&](std::initializer_list<Convolution> sizes) {
    return maker.size < sizes.size() ? std::optional(sizes.begin()[maker.size]) : std::nullopt;
  };
  switch (maker.form) {
    case KernelForm::thin:
      return narrow ? one_of({{1, 3, 64, 56, 1, 1}, {8, 3, 64, 112, 1, 1}, {64, 3, 64, 112, 1, 1}})
                    : one_of({{1, 3, 64, 56, 7, 2}, {8, 3, 64, 112, 7, 2}, {64, 3, 64, 224, 7, 2}});
    case KernelForm::strided:
      return one_of({{1, 64, 64, 28, 1, 2}, {8, 256, 256, 28, 1, 2}, {64, 512, 512, 28, 1, 2}});
    case KernelForm::unaligned:
      return one_of({{1, 64, 64, 13, 1, 1}, {8, 256, 256, 13, 1, 1}, {64, 512, 512, 13, 1, 1}});
    default:
      return narrow ? one_of({{1, 32, 32, 14, 1, 1},
                              {1, 128, 128, 28, 1, 1},
                              {8, 256, 256, 28, 1, 1},
                              {64, 256, 256, 28, 1, 1}})
                    : one_of({{1, 16, 16, 14, 3, 1},
                              {1, 64, 64, 28, 3, 1},
                              {8, 64, 64, 28, 3, 1},
                              {64, 128, 128, 28, 3, 1}});
  }
}

std::optional<Sample> convolution_sample(const Maker& maker) {
  const auto size = convolution_of(maker);
  if (!size) return std::nullopt;
  const auto x = maker.tensor({size->count, size->in, size->side, size->side});
  const auto w = maker.tensor({size->out, size->in, size->kernel, size->kernel});
  const std::array<int64_t, 2> one = {1, 1}, none = {0, 0};
  const std::array<int64_t, 2> stride = {size->stride, size->stride};
  const std::array<int64_t, 2> padding = {size->kernel / 2, size->kernel / 2};
  const auto forward = [=] {
    return at::convolution(x, w, {}, stride, padding, one, false, none, 1);
  };
  const auto g = maker.tensor(forward().sizes());
  const auto work =
      2.0 * static_cast<double>(g.numel()) * static_cast<double>(w.numel() / size->out);
  if (maker.kind == Kind::convolution || maker.kind == Kind::convolution_1x1) {
    return Sample{work, [=] { forward(); }};
  }
  const bool to_image = maker.form != KernelForm::thin;  // such images are data
  return Sample{(to_image ? 2 : 1) * work, [=] {
                  at::convolution_backward(g, x, w, std::nullopt, stride, padding, one, false, none,
                                           1, {to_image, true, false});
                }};
}

std::optional<Sample> attention_sample(const Maker& maker) {
  const auto sizes =
      step(std::to_array<std::array<int64_t, 4>>(
               {{1, 1, 64, 64}, {1, 4, 256, 64}, {4, 8, 512, 64}, {8, 12, 1024, 64}}),
           maker);
  if (!sizes) return std::nullopt;
  const auto q = maker.tensor(*sizes), k = maker.tensor(*sizes), v = maker.tensor(*sizes);
  const auto work = 4.0 * static_cast<double>(q.numel()) * static_cast<double>(q.size(2));
  return Sample{work, [=] { at::scaled_dot_product_attention(q, k, v); }};
}

constexpr int64_t kColumns = 1024;

std::optional<Sample> batch_norm_sample(const Maker& maker, int64_t elements) {
  const int64_t channels = maker.form == KernelForm::channels_64    ? 64
                           : maker.form == KernelForm::channels_256 ? 256
                                                                    : 1024;
  constexpr int64_t kSide = 28;
  const auto images = std::max<int64_t>(1, elements / (channels * kSide * kSide));
  const auto x = maker.tensor({images, channels, kSide, kSide});
  const auto parameters = maker.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto vector = at::empty({channels}, x.options().dtype(parameters)).fill_(1);
  const auto forward = [=] {
    return at::_batch_norm_impl_index(x, vector, vector, vector, vector, true, 0, 1e-5, true);
  };
  if (maker.kind == Kind::batch_norm) return Sample{bytes_of({x, x}), [=] { forward(); }};
  const auto g = maker.tensor(x.sizes());
  const auto [y, mean, deviation, reserve, index] = forward();
  return Sample{bytes_of({x, x, x}),
                [=, mean = mean, deviation = deviation, reserve = reserve, index = index] {
                  at::_batch_norm_impl_index_backward(index, x, g, vector, vector, vector, mean,
                                                      deviation, true, 1e-5, {true, true, true},
                                                      reserve);
                }};
}

std::optional<Sample> layer_norm_sample(const Maker& maker, const at::Tensor& x) {
  const auto w = maker.tensor({kColumns});
  const auto forward = [=] { return at::native_layer_norm(x, {kColumns}, w, w, 1e-5); };
  if (maker.kind == Kind::layer_norm) return Sample{bytes_of({x, x}), [=] { forward(); }};
  const auto g = maker.tensor(x.sizes());
  const auto [y, mean, deviation] = forward();
  return Sample{
      bytes_of({x, x, x}), [=, mean = mean, deviation = deviation] {
        at::native_layer_norm_backward(g, x, {kColumns}, mean, deviation, w, w, {true, true, true});
      }};
}

std::optional<Sample> transfer_sample(const Maker& maker, int64_t elements) {
  if (maker.device.is_cpu()) return std::nullopt;
  const auto x = maker.tensor({elements});
  const auto host =
      at::empty({elements}, at::TensorOptions().dtype(maker.dtype).pinned_memory(true));
  return Sample{bytes_of({x}), [=] { host.copy_(x, /*non_blocking=*/true); }};
}

std::optional<Sample> moving_sample(const Maker& maker) {
  const auto elements =
      step(std::to_array<int64_t>({1 << 10, 1 << 15, 1 << 18, 1 << 21, 1 << 24}), maker);
  if (!elements) return std::nullopt;
  if (maker.kind == Kind::batch_norm || maker.kind == Kind::batch_norm_backward) {
    return batch_norm_sample(maker, *elements);
  }
  if (maker.kind == Kind::transfer) return transfer_sample(maker, *elements);
  const auto x = maker.tensor({*elements / kColumns, kColumns});
  switch (maker.kind) {
    case Kind::transcendental: return Sample{bytes_of({x, x}), [=] { at::gelu(x); }};
    case Kind::draw:
      return Sample{bytes_of({x, x}) + static_cast<double>(x.numel()),
                    [=] { at::native_dropout(x, 0.5, true); }};
    case Kind::reduction: return Sample{bytes_of({x}), [=] { at::sum(x, 0); }};
    case Kind::softmax: return Sample{bytes_of({x, x}), [=] { at::_log_softmax(x, 1, false); }};
    case Kind::layer_norm:
    case Kind::layer_norm_backward: return layer_norm_sample(maker, x);
    default: {
      const auto y = maker.tensor(x.sizes());
      return Sample{bytes_of({x, x, x}), [=] { at::mul(x, y); }};
    }
  }
}

}  // namespace

std::optional<Sample> sample_of(const KernelClass& kernel, c10::Device device, size_t size) {
  const Maker maker{kernel.kind,          device,      torch_compat::to_scalar_type(kernel.dtype),
                    kernel.channels_last, kernel.form, size};
  switch (kernel.kind) {
    case Kind::product: return product_sample(maker);
    case Kind::convolution:
    case Kind::convolution_backward:
    case Kind::convolution_1x1:
    case Kind::convolution_1x1_backward: return convolution_sample(maker);
    case Kind::attention: return attention_sample(maker);
    default: return moving_sample(maker);
  }
}

}  // namespace antegrad::measuring
