#include <ATen/ATen.h>

#include "support/shape_sample_parts.h"
#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

/// The dtype of parameters: the input's, or float for a low-precision input.
at::ScalarType parameter_dtype(R& r, at::ScalarType input) {
  return input == at::kBFloat16 && r.chance(0.5) ? at::kFloat : input;
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

Arguments rms_norm(R& r) {
  const Shape outer = r.full_shape(0, 3), inner = r.full_shape(1, 2);
  const at::ScalarType dtype = r.floating();
  return {r.tensor(joined(outer, inner), dtype), inner, maybe(r, r.tensor(inner, dtype)), 1e-5};
}

Arguments rms_norm_backward(R& r) {
  const Arguments a = rms_norm(r);
  const at::Tensor input = a[0].toTensor();
  const at::Tensor weight = a[2].isNone() ? at::Tensor() : a[2].toTensor();
  const auto out = at::_fused_rms_norm(input, a[1].toIntVector(), weight, 1e-5);
  c10::List<bool> wanted = mask(r, 2);
  if (a[2].isNone()) wanted.set(1, false);
  return {gradient(r, input), input, a[1], std::get<1>(out), a[2], wanted};
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

/// Arguments as at::batch_norm passes them to cuDNN: contiguous in some format, with float
/// parameters.
Arguments cudnn_batch_norm(R& r) {
  const Shape shape = joined({r.integer(1, 3), r.integer(1, 40)}, r.full_shape(1, 2));
  at::Tensor input = r.contiguous(shape, r.pick({at::kFloat, at::kHalf, at::kBFloat16}));
  if (input.dim() == 4 && r.chance(0.5)) input = input.contiguous(at::MemoryFormat::ChannelsLast);
  const auto parameter = [&] { return r.contiguous({shape[1]}, at::kFloat); };
  return {input, parameter(), parameter(), parameter(), parameter(), r.chance(0.7), 0.1, 1e-5};
}

Arguments cudnn_batch_norm_backward(R& r) {
  const Arguments a = cudnn_batch_norm(r);
  const auto t = [&](size_t i) { return a[i].toTensor(); };
  const auto [out, mean, var, reserve] =
      at::cudnn_batch_norm(t(0), t(1), t(2), t(3), t(4), true, 0.1, 1e-5);
  return {a[0], at::ones_like(t(0)), a[1], a[3], a[4], mean, var, 1e-5, reserve};
}

// ---- Convolution -------------------------------------------------------------------------------

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

}  // namespace

const ArgumentsTable& layer_samples() {
  static const ArgumentsTable table = {
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::_fused_rms_norm", rms_norm},
      {"aten::_fused_rms_norm_backward", rms_norm_backward},
      {"aten::cudnn_batch_norm", cudnn_batch_norm},
      {"aten::cudnn_batch_norm_backward", cudnn_batch_norm_backward},
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
  };
  return table;
}

}  // namespace antegrad::testing
