#include <ATen/ATen.h>
#include <ATen/core/Reduction.h>

#include <algorithm>

#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

c10::IValue maybe(R& r, at::Tensor t) { return r.chance(0.25) ? c10::IValue() : c10::IValue(t); }

c10::List<bool> mask(R& r, size_t bits) {
  c10::List<bool> list;
  for (size_t i = 0; i < bits; ++i) list.push_back(r.chance(0.8));
  return list;
}

/// The dtype of parameters: the input's, or float beside a narrow input.
at::ScalarType parameter_dtype(R& r, at::ScalarType input) {
  return input == at::kBFloat16 && r.chance(0.5) ? at::kFloat : input;
}

Shape joined(Shape a, const Shape& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// ---- Norms -------------------------------------------------------------------------------------

Arguments layer_norm(R& r) {
  const Shape outer = r.shape(0, 3), inner = r.full_shape(1, 2);
  const at::ScalarType dtype = r.floating(), parameters = parameter_dtype(r, dtype);
  return {r.tensor(joined(outer, inner), dtype), inner, maybe(r, r.tensor(inner, parameters)),
          maybe(r, r.tensor(inner, parameters)), 1e-5};
}

Arguments layer_norm_backward(R& r) {
  Arguments a = layer_norm(r);
  const at::Tensor input = a[0].toTensor();
  const auto optional = [&](size_t i) { return a[i].isNone() ? at::Tensor() : a[i].toTensor(); };
  const auto out = at::native_layer_norm(input, a[1].toIntVector(), optional(2), optional(3), 1e-5);
  c10::List<bool> wanted = mask(r, 3);
  for (const size_t i : {1, 2}) {
    if (a[i + 1].isNone()) wanted.set(i, false);
  }
  return {r.tensor(input.sizes().vec(), input.scalar_type()),
          input,
          a[1],
          std::get<1>(out),
          std::get<2>(out),
          a[2],
          a[3],
          wanted};
}

Arguments group_norm(R& r) {
  const int64_t groups = r.integer(1, 2), channels = groups * r.integer(1, 3);
  Shape shape = joined({r.integer(1, 3), channels}, r.full_shape(0, 2));
  const at::ScalarType dtype = r.floating(), parameters = parameter_dtype(r, dtype);
  at::Tensor input = r.contiguous(shape, dtype);
  if (input.dim() == 4 && r.chance(0.4)) input = input.contiguous(at::MemoryFormat::ChannelsLast);
  const int64_t area = input.numel() / (shape[0] * channels);
  return {input,
          maybe(r, r.contiguous({channels}, parameters)),
          maybe(r, r.contiguous({channels}, parameters)),
          shape[0],
          channels,
          area,
          groups,
          1e-5};
}

Arguments group_norm_backward(R& r) {
  const Arguments a = group_norm(r);
  const at::Tensor input = a[0].toTensor();
  const auto optional = [&](size_t i) { return a[i].isNone() ? at::Tensor() : a[i].toTensor(); };
  const auto out = at::native_group_norm(input, optional(1), optional(2), a[3].toInt(),
                                         a[4].toInt(), a[5].toInt(), a[6].toInt(), 1e-5);
  c10::List<bool> wanted = mask(r, 3);
  // The CPU kernel for channels-last crashes (2.13) when a gradient is not asked for.
  if (!input.is_contiguous() && !a[1].isNone()) wanted = c10::List<bool>({true, true, true});
  if (a[1].isNone()) {
    TORCH_CHECK(input.is_contiguous(), "no sample");
    wanted.set(1, false);
    wanted.set(2, false);
  }
  return {at::ones_like(input),
          input,
          std::get<1>(out),
          std::get<2>(out),
          a[1],
          a[3],
          a[4],
          a[5],
          a[6],
          wanted};
}

struct BatchNorm {
  explicit BatchNorm(R& r)
      : shape(joined(r.full_shape(2, 2), r.full_shape(0, 2))),
        dtype(r.floating()),
        parameters(parameter_dtype(r, dtype)),
        input(r.tensor(shape, dtype)) {}

  at::Tensor channels(R& r) const { return r.tensor({shape[1]}, parameters); }
  at::Tensor running(R& r) const { return r.contiguous({shape[1]}, parameters); }

  Shape shape;
  at::ScalarType dtype, parameters;
  at::Tensor input;
};

Arguments batch_norm(R& r, bool running, int training_argument) {
  const BatchNorm b(r);
  Arguments a = {b.input, maybe(r, b.channels(r)), maybe(r, b.channels(r))};
  if (running) {
    a.push_back(b.running(r));
    a.push_back(b.running(r));
  }
  if (training_argument > 0) a.push_back(!running || r.chance(0.6));
  a.push_back(0.1);
  a.push_back(1e-5);
  return a;
}

Arguments batch_norm_backward(R& r, bool reserve) {
  const BatchNorm b(r);
  const at::Tensor weight = b.channels(r), mean = b.running(r), var = b.running(r);
  const bool training = reserve || r.chance(0.7);
  at::Tensor save_mean = b.running(r), save_invstd = b.running(r);
  if (!training && r.device().is_cpu()) {
    save_mean = at::empty({0}, save_mean.options());
    save_invstd = at::empty({0}, save_invstd.options());
  }
  const at::Tensor grad =
      r.chance(0.5) ? r.tensor(b.shape, b.dtype) : at::empty_like(b.input).fill_(1);
  Arguments a = {grad,        b.input,  reserve ? c10::IValue(weight) : maybe(r, weight),
                 mean,        var,      save_mean,
                 save_invstd, training, 1e-5,
                 mask(r, 3)};
  if (reserve) a.push_back(at::empty({0}, b.input.options().dtype(at::kByte)));
  return a;
}

// ---- Convolution, pooling, upsampling ----------------------------------------------------------

struct Convolution {
  explicit Convolution(R& r) {
    const auto spatial = static_cast<size_t>(r.pick({1, 2, 2, 2, 3}));
    const int64_t groups = r.integer(1, 2), in = groups * r.integer(1, 2);
    const int64_t out = groups * r.integer(1, 2);
    const bool transposed = r.chance(0.35);
    const at::ScalarType dtype = r.pick({at::kFloat, at::kFloat, at::kDouble, at::kBFloat16});
    Shape input_shape = {r.integer(1, 2), in};
    Shape weight_shape = transposed ? Shape{in, out / groups} : Shape{out, in / groups};
    Shape stride, padding, dilation, output_padding;
    for (size_t i = 0; i < spatial; ++i) {
      input_shape.push_back(r.integer(3, 5));
      weight_shape.push_back(r.pick({1, 2, 3}));
      stride.push_back(r.integer(1, 2));
      padding.push_back(r.integer(0, 1));
      dilation.push_back(r.pick({1, 1, 1, 2}));
      output_padding.push_back(transposed && stride.back() == 2 && r.chance(0.3) ? 1 : 0);
    }
    input = r.tensor(input_shape, dtype);
    weight = r.chance(0.5) ? r.contiguous(weight_shape, dtype) : r.tensor(weight_shape, dtype);
    if (r.chance(0.7)) bias = r.contiguous({out}, dtype);
    parameters = {stride, padding, dilation, transposed, output_padding, groups};
  }

  at::Tensor input, weight;
  std::optional<at::Tensor> bias;
  Arguments parameters;
};

Arguments convolution(R& r) {
  const Convolution c(r);
  Arguments a = {c.input, c.weight, c.bias};
  a.insert(a.end(), c.parameters.begin(), c.parameters.end());
  return a;
}

Arguments convolution_backward(R& r) {
  const Convolution c(r);
  const auto& p = c.parameters;
  const at::Tensor out =
      at::convolution(c.input, c.weight, c.bias, p[0].toIntVector(), p[1].toIntVector(),
                      p[2].toIntVector(), p[3].toBool(), p[4].toIntVector(), p[5].toInt());
  const at::Tensor grad =
      r.chance(0.5) ? at::ones_like(out) : r.tensor(out.sizes().vec(), out.scalar_type());
  Arguments a = {grad, c.input, c.weight,
                 c.bias ? c10::IValue(c.bias->sizes().vec()) : c10::IValue(Shape{out.size(1)})};
  a.insert(a.end(), p.begin(), p.end());
  a.push_back(mask(r, 3));
  return a;
}

/// kernel, stride, padding and, with `dilated`, dilation; then ceil_mode.
Arguments window(R& r, bool dilated) {
  const int64_t kernel = r.integer(1, 3);
  Arguments a = {r.chance(0.5) ? Shape{kernel, kernel} : Shape{kernel}};
  a.push_back(r.chance(0.3) ? Shape{} : Shape{r.integer(1, 2), r.integer(1, 2)});
  a.push_back(Shape{r.integer(0, kernel / 2)});
  if (dilated) a.push_back(Shape{r.pick({1, 1, 2})});
  a.push_back(r.chance(0.4));
  return a;
}

at::Tensor image(R& r) {
  Shape shape = r.full_shape(1, 2);
  shape.push_back(r.integer(3, 6));
  shape.push_back(r.integer(3, 6));
  return r.tensor(shape, r.floating());
}

at::Tensor batched_image(R& r) {
  const Shape shape = {r.integer(1, 3), r.integer(1, 3), r.integer(2, 5), r.integer(2, 5)};
  return r.tensor(shape, r.floating());
}

/// A gradient of this shape in some layout.
at::Tensor gradient(R& r, const at::Tensor& of) {
  return r.chance(0.5) ? at::ones_like(of) : r.tensor(of.sizes().vec(), of.scalar_type());
}

Arguments max_pool(R& r) {
  Arguments a = {image(r)};
  const Arguments w = window(r, true);
  a.insert(a.end(), w.begin(), w.end());
  return a;
}

Arguments max_pool_backward(R& r) {
  Arguments a = max_pool(r);
  const auto [out, indices] =
      at::max_pool2d_with_indices(a[0].toTensor(), a[1].toIntVector(), a[2].toIntVector(),
                                  a[3].toIntVector(), a[4].toIntVector(), a[5].toBool());
  a.insert(a.begin(), gradient(r, out));
  a.push_back(indices);
  return a;
}

Arguments avg_pool(R& r) {
  Arguments a = {image(r)};
  const Arguments w = window(r, false);
  a.insert(a.end(), w.begin(), w.end());
  a.push_back(r.chance(0.5));
  a.push_back({});
  return a;
}

Arguments avg_pool_backward(R& r) {
  Arguments a = avg_pool(r);
  const at::Tensor out = at::avg_pool2d(a[0].toTensor(), a[1].toIntVector(), a[2].toIntVector(),
                                        a[3].toIntVector(), a[4].toBool(), a[5].toBool());
  a.insert(a.begin(), gradient(r, out));
  return a;
}

Arguments adaptive_pool(R& r) { return {image(r), Shape{r.integer(1, 3), r.integer(1, 3)}}; }

Arguments adaptive_pool_backward(R& r) {
  const Arguments a = adaptive_pool(r);
  const at::Tensor out = at::_adaptive_avg_pool2d(a[0].toTensor(), a[1].toIntVector());
  return {gradient(r, out), a[0]};
}

Arguments upsample(R& r, bool bilinear, bool backward) {
  const at::Tensor t = batched_image(r);
  const Shape size = {r.integer(1, 7), r.integer(1, 7)};
  Arguments a = {t, size};
  if (backward) {
    a[0] = r.tensor({t.size(0), t.size(1), size[0], size[1]}, t.scalar_type());
    a.push_back(t.sizes().vec());
  }
  if (bilinear) a.push_back(r.chance(0.5));
  a.push_back({});
  a.push_back({});
  return a;
}

// ---- Embedding and losses ----------------------------------------------------------------------

Arguments embedding(R& r) {
  const int64_t rows = r.integer(1, 5);
  return {r.tensor({rows, r.integer(0, 3)}, r.floating()), r.indices(r.shape(0, 3), rows),
          int64_t{-1}, false, false};
}

Arguments embedding_backward(R& r) {
  const int64_t rows = r.integer(1, 5);
  const Shape shape = r.shape(0, 3);
  return {r.tensor(joined(shape, {r.integer(1, 3)}), r.floating()), r.indices(shape, rows), rows,
          int64_t{-1}, false};
}

/// self (N, C, …), target (N, …), weight, reduction, ignore_index.
Arguments nll_loss(R& r, bool image_wise) {
  const Shape outer = r.full_shape(1, 1), inner = image_wise ? r.full_shape(2, 2) : Shape{};
  const int64_t classes = r.integer(1, 4);
  const at::ScalarType dtype = r.floating();
  if (!image_wise && r.chance(0.15)) {
    return {r.tensor({classes}, dtype), r.indices({}, classes), c10::IValue(), r.integer(0, 2),
            int64_t{-100}};
  }
  return {r.tensor(joined(joined(outer, {classes}), inner), dtype),
          r.indices(joined(outer, inner), classes),
          r.chance(0.5) ? c10::IValue() : c10::IValue(r.contiguous({classes}, dtype)),
          r.integer(0, 2), int64_t{-100}};
}

Arguments nll_loss_backward(R& r, bool image_wise) {
  Arguments a = nll_loss(r, image_wise);
  const at::Tensor self = a[0].toTensor(), target = a[1].toTensor();
  const bool reduced = a[3].toInt() != at::Reduction::None;
  a.insert(a.begin(), r.tensor(reduced ? Shape{} : target.sizes().vec(), self.scalar_type()));
  a.push_back(at::ones({}, self.options()));
  return a;
}

Arguments loss_backward(R& r, Arguments rest) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.floating();
  const int64_t reduction = r.integer(0, 2);
  Arguments a = {r.tensor(reduction == at::Reduction::None ? shape : Shape{}, dtype),
                 r.tensor(shape, dtype), r.tensor(r.narrowed(shape), dtype)};
  a.insert(a.end(), rest.begin(), rest.end());
  a.insert(a.begin() + 3 + (rest.size() > 0 && rest[0].isNone() ? 1 : 0), reduction);
  return a;
}

Arguments cross_entropy(R& r, bool backward) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.floating();
  const int64_t reduction = r.integer(0, 2);
  Arguments a;
  if (backward) a.push_back(r.tensor(reduction == 0 ? shape : Shape{}, dtype));
  a.push_back(r.tensor(shape, dtype));
  a.push_back(r.tensor(shape, dtype));
  a.push_back(r.chance(0.6) ? c10::IValue() : c10::IValue(r.tensor(r.narrowed(shape), dtype)));
  a.push_back(reduction);
  return a;
}

Arguments cross_entropy_with_logits(R& r) {
  Arguments a = cross_entropy(r, false);
  a.insert(a.begin() + 3, c10::IValue());
  return a;
}

/// No zero sizes: the CPU kernel divides by them (2.13).
Arguments softmax_backward(R& r) {
  const Shape shape = r.full_shape(0, 4);
  const at::ScalarType dtype = r.floating();
  const int64_t range = std::max<int64_t>(shape.size(), 1);
  return {r.tensor(shape, dtype), r.tensor(shape, dtype), r.integer(-range, range - 1),
          r.chance(0.9) ? dtype : at::kDouble};
}

/// The weight must not outgrow self: the kernel (2.13) then writes out of bounds.
Arguments prelu(R& r, bool backward) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.floating();
  Arguments a = {r.tensor(shape, dtype), r.tensor(r.narrowed(shape), dtype)};
  if (backward) a.insert(a.begin(), r.tensor(shape, dtype));
  return a;
}

/// The oneDNN kernel (2.13) reads out of bounds when the operands broadcast.
Arguments gelu_backward(R& r) {
  const Shape shape = r.shape();
  return {r.tensor(shape, r.floating()), r.tensor(shape, r.floating()),
          r.chance(0.5) ? "none" : "tanh"};
}

Arguments glu_backward(R& r) {
  Shape shape = r.shape(1, 4);
  const int64_t dim = r.integer(0, shape.size() - 1);
  const at::ScalarType dtype = r.floating();
  const at::Tensor grad = r.tensor(shape, dtype);
  shape[dim] *= 2;
  return {grad, r.tensor(shape, dtype), dim};
}

// ---- Attention ---------------------------------------------------------------------------------

Arguments attention(R& r) {
  const at::ScalarType dtype = r.pick({at::kFloat, at::kFloat, at::kDouble, at::kBFloat16});
  const int64_t batch = r.integer(1, 3), heads = r.integer(1, 3), width = 2 * r.integer(1, 4);
  const int64_t from = r.integer(1, 5), to = r.chance(0.5) ? from : r.integer(1, 5);
  const Shape kv = {batch, heads, to, width};
  return {r.tensor({batch, heads, from, width}, dtype),
          r.tensor(kv, dtype),
          r.tensor(kv, dtype),
          0.0,
          from == to && r.chance(0.5),
          c10::IValue(),
          c10::IValue()};
}

Arguments attention_backward(R& r) {
  Arguments a = attention(r);
  const auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      a[0].toTensor(), a[1].toTensor(), a[2].toTensor(), 0.0, a[4].toBool());
  return {gradient(r, out), a[0], a[1], a[2], out, logsumexp, a[3], a[4], a[5], a[6]};
}

// Fused attention on CUDA. Layouts are those that models make: heads beside the batch, heads inside
// the sequence, and slices of one projection.

struct CudaAttention {
  explicit CudaAttention(R& r) {
    const at::ScalarType dtype = r.pick({at::kHalf, at::kBFloat16});
    const int64_t batch = r.integer(1, 3), heads = r.integer(1, 3);
    const int64_t width = r.pick<int64_t>({8, 16, 64});
    const int64_t from = r.pick<int64_t>({2, 5, 32, 40});
    const int64_t to = r.chance(0.5) ? from : r.integer(2, 40);
    const int layout = static_cast<int>(r.integer(0, 3));
    const auto make = [&](int64_t length) -> at::Tensor {
      const auto options = at::TensorOptions().device(r.device()).dtype(dtype);
      switch (layout) {
        case 0: return at::rand({batch, heads, length, width}, options);
        case 1: return at::rand({batch, length, heads, width}, options).transpose(1, 2);
        case 2:
          return at::rand({batch, length, heads, 3 * width}, options)
              .narrow(3, width, width)
              .transpose(1, 2);
        default: return at::rand({length, batch, heads, width}, options).permute({1, 2, 0, 3});
      }
    };
    query = make(from);
    key = make(to);
    value = make(to);
    causal = from == to && r.chance(0.5);
    if (r.chance(0.3)) dropout = 0.1;
  }

  at::Tensor query, key, value;
  bool causal = false;
  double dropout = 0;
};

Arguments flash(R& r) {
  const CudaAttention a(r);
  return {a.query, a.key, a.value, a.dropout, a.causal, false, c10::IValue()};
}

Arguments flash_backward(R& r) {
  const CudaAttention a(r);
  const auto [out, logsumexp, cum_q, cum_k, max_q, max_k, state, unused, debug] =
      at::_scaled_dot_product_flash_attention(a.query, a.key, a.value, a.dropout, a.causal);
  return {gradient(r, out),
          a.query,
          a.key,
          a.value,
          out,
          logsumexp,
          cum_q,
          cum_k,
          max_q.expect_int(),
          max_k.expect_int(),
          a.dropout,
          a.causal,
          state,
          unused,
          c10::IValue()};
}

Arguments efficient(R& r) {
  const CudaAttention a(r);
  return {a.query,       a.key,     a.value,  c10::IValue(),
          r.chance(0.7), a.dropout, a.causal, c10::IValue()};
}

Arguments efficient_backward(R& r) {
  const CudaAttention a(r);
  const auto [out, logsumexp, seed, offset] = at::_scaled_dot_product_efficient_attention(
      a.query, a.key, a.value, std::nullopt, true, a.dropout, a.causal);
  const c10::List<bool> wanted({true, true, true, false});
  return {gradient(r, out), a.query,   a.key,  a.value,  at::Tensor(), out, logsumexp, seed,
          offset,           a.dropout, wanted, a.causal, c10::IValue()};
}

Arguments cudnn(R& r) {
  const CudaAttention a(r);
  return {a.query, a.key, a.value, c10::IValue(), true, a.dropout, a.causal, false, c10::IValue()};
}

Arguments cudnn_backward(R& r) {
  const CudaAttention a(r);
  const auto [out, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, debug] =
      at::_scaled_dot_product_cudnn_attention(a.query, a.key, a.value, std::nullopt, true,
                                              a.dropout, a.causal);
  return {gradient(r, out),
          a.query,
          a.key,
          a.value,
          out,
          logsumexp,
          seed,
          offset,
          at::Tensor(),
          cum_q,
          cum_k,
          max_q.expect_int(),
          max_k.expect_int(),
          a.dropout,
          a.causal,
          c10::IValue()};
}

}  // namespace

const ArgumentsTable& layer_samples() {
  static const ArgumentsTable table = {
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::native_group_norm", group_norm},
      {"aten::native_group_norm_backward", group_norm_backward},
      {"aten::native_batch_norm", [](R& r) { return batch_norm(r, true, 5); }},
      {"aten::_native_batch_norm_legit", [](R& r) { return batch_norm(r, true, 5); }},
      {"aten::_native_batch_norm_legit.no_stats", [](R& r) { return batch_norm(r, false, 3); }},
      {"aten::_native_batch_norm_legit_functional", [](R& r) { return batch_norm(r, true, 5); }},
      {"aten::_native_batch_norm_legit_no_training", [](R& r) { return batch_norm(r, true, 0); }},
      {"aten::_batch_norm_with_update_functional", [](R& r) { return batch_norm(r, true, 0); }},
      {"aten::native_batch_norm_backward", [](R& r) { return batch_norm_backward(r, false); }},
      {"aten::batch_norm_backward", [](R& r) { return batch_norm_backward(r, true); }},

      {"aten::convolution", convolution},
      {"aten::convolution_backward", convolution_backward},
      {"aten::max_pool2d_with_indices", max_pool},
      {"aten::max_pool2d_with_indices_backward", max_pool_backward},
      {"aten::avg_pool2d", avg_pool},
      {"aten::avg_pool2d_backward", avg_pool_backward},
      {"aten::_adaptive_avg_pool2d", adaptive_pool},
      {"aten::_adaptive_avg_pool2d_backward", adaptive_pool_backward},
      {"aten::upsample_nearest2d", [](R& r) { return upsample(r, false, false); }},
      {"aten::upsample_nearest2d_backward", [](R& r) { return upsample(r, false, true); }},
      {"aten::upsample_bilinear2d", [](R& r) { return upsample(r, true, false); }},
      {"aten::upsample_bilinear2d_backward", [](R& r) { return upsample(r, true, true); }},

      {"aten::_softmax_backward_data", softmax_backward},
      {"aten::_log_softmax_backward_data", softmax_backward},
      {"aten::_prelu_kernel", [](R& r) { return prelu(r, false); }},
      {"aten::_prelu_kernel_backward", [](R& r) { return prelu(r, true); }},
      {"aten::gelu_backward", gelu_backward},
      {"aten::glu_backward", glu_backward},
      {"aten::embedding", embedding},
      {"aten::embedding_dense_backward", embedding_backward},
      {"aten::nll_loss_forward", [](R& r) { return nll_loss(r, false); }},
      {"aten::nll_loss_backward", [](R& r) { return nll_loss_backward(r, false); }},
      {"aten::nll_loss2d_forward", [](R& r) { return nll_loss(r, true); }},
      {"aten::nll_loss2d_backward", [](R& r) { return nll_loss_backward(r, true); }},
      {"aten::mse_loss_backward", [](R& r) { return loss_backward(r, {}); }},
      {"aten::smooth_l1_loss_backward", [](R& r) { return loss_backward(r, {1.0}); }},
      {"aten::huber_loss_backward", [](R& r) { return loss_backward(r, {1.0}); }},
      {"aten::binary_cross_entropy", [](R& r) { return cross_entropy(r, false); }},
      {"aten::binary_cross_entropy_backward", [](R& r) { return cross_entropy(r, true); }},
      {"aten::binary_cross_entropy_with_logits", cross_entropy_with_logits},

      {"aten::_scaled_dot_product_cudnn_attention", cudnn},
      {"aten::_scaled_dot_product_cudnn_attention_backward", cudnn_backward},
      {"aten::_scaled_dot_product_efficient_attention", efficient},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_backward},
      {"aten::_scaled_dot_product_flash_attention", flash},
      {"aten::_scaled_dot_product_flash_attention_backward", flash_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
  };
  return table;
}

}  // namespace antegrad::testing
