/// \file
/// Layer, group and batch normalisation with their derivatives. Statistics are kept in the input's
/// dtype on the CPU, in float when parameters are wider than the input ("mixed"), and in the
/// accumulation dtype on CUDA.

#include <algorithm>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// The dtype of statistics, determined by the first given parameter from `first` to `last`.
at::ScalarType dtype_beside(const Call& call, const at::Tensor& input, size_t first, size_t last) {
  while (first <= last && call.is_none(first)) ++first;
  const bool mixed = first <= last && call.tensor(first).scalar_type() != input.scalar_type();
  return mixed ? at::kFloat : input.scalar_type();
}

at::ScalarType statistics_dtype(const Call& call, const at::Tensor& input, size_t first,
                                size_t last) {
  return input.is_cpu() ? dtype_beside(call, input, first, last)
                        : accumulate_type(input.scalar_type());
}

/// The format in which a tensor is contiguous, as the CPU kernels of batch norm test it. Nothing if
/// in none.
std::optional<at::MemoryFormat> contiguous_format(const at::Tensor& t) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                            at::MemoryFormat::ChannelsLast3d}) {
    if (t.is_contiguous(format)) return format;
  }
  return std::nullopt;
}

/// A contiguous gradient of the tensor at `parameter` if bit `bit` of the mask at `mask_arg`
/// requests it; false if that is not possible.
bool returns_if(Call& call, size_t mask_arg, size_t bit, size_t parameter) {
  if (!mask(call, mask_arg, bit)) return call.returns(undefined());
  const at::Tensor& t = call.tensor(parameter);
  return t.defined() && call.returns(contiguous(t, t.sizes()));
}

/// Sizes of the statistics of layers: those of `input`, with 1 for the dimensions in argument 1,
/// which must be the last ones. Nothing if they do not fit.
std::optional<Dims> layer_statistics(const Call& call, const at::Tensor& input) {
  const at::DimVector normalized = call.arg(1).toDimVector();
  const int64_t axis = input.dim() - static_cast<int64_t>(normalized.size());
  if (axis < 0 || normalized.empty() || !input.sizes().slice(axis).equals(normalized)) return {};
  Dims sizes(input.sizes().begin(), input.sizes().end());
  std::fill(sizes.begin() + axis, sizes.end(), 1);
  return sizes;
}

bool layer_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const auto sizes = layer_statistics(call, input);
  for (const size_t i : {2, 3}) {
    if (!call.is_none(i) && !call.tensor(i).sizes().equals(call.arg(1).toDimVector())) return false;
  }
  if (!sizes) return false;
  const Spec statistics = fresh(*sizes, statistics_dtype(call, input, 2, 3), input.device());
  return call.returns(contiguous(input, input.sizes()), statistics, statistics);
}

bool layer_norm_backward(Call& call) {
  return returns_if(call, 7, 0, 1) && returns_if(call, 7, 1, 5) && returns_if(call, 7, 2, 6);
}

/// CUDA only: elsewhere it decomposes.
bool rms_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const auto sizes = layer_statistics(call, input);
  return input.is_cuda() && sizes &&
         call.returns(contiguous(input, input.sizes()),
                      fresh(*sizes, accumulate_type(input.scalar_type()), input.device()));
}

bool rms_norm_backward(Call& call) {
  return call.tensor(1).is_cuda() && returns_if(call, 5, 0, 1) && returns_if(call, 5, 1, 4);
}

at::MemoryFormat group_norm_format(const at::Tensor& input) {
  return input.is_cpu() ? input.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

bool group_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const at::MemoryFormat format = group_norm_format(input);
  const int64_t groups = call.integer(6);
  if (!input.is_contiguous(format) || groups <= 0 || call.integer(4) % groups != 0) return false;
  const Spec statistics =
      fresh({call.integer(3), groups}, dtype_beside(call, input, 1, 2), input.device());
  return call.returns(allocated_like(input, format), statistics, statistics);
}

bool group_norm_backward(Call& call) {
  const at::Tensor& input = call.tensor(1);
  call.returns(mask(call, 9, 0) ? allocated_like(input, group_norm_format(input)) : undefined());
  return returns_if(call, 9, 1, 4) && returns_if(call, 9, 2, 4);
}

/// The three outputs of every batch norm of `input`, with parameters in arguments 1 and 2 and, if
/// `has_running`, running statistics in 3 and 4.
bool batch_norm_outputs(Call& call, bool training, bool has_running) {
  const at::Tensor& input = call.tensor(0);
  if (input.dim() < 2) return false;
  const size_t last_parameter = has_running ? 4 : 2;
  bool contiguous_parameters = true;
  for (size_t i = 1; i <= last_parameter; ++i) {
    if (call.is_none(i)) continue;
    const at::Tensor& t = call.tensor(i);
    if (t.dim() != 1 || t.size(0) != input.size(1)) return false;
    contiguous_parameters = contiguous_parameters && t.is_contiguous();
  }
  if (!training && (!has_running || call.is_none(3) || call.is_none(4))) return false;
  std::optional<at::MemoryFormat> format;
  if (input.is_cpu()) {
    format = input.suggest_memory_format();
    if (contiguous_parameters) format = contiguous_format(input).value_or(*format);
  }
  const Spec statistics = fresh({training || !input.is_cpu() ? input.size(1) : 0},
                                statistics_dtype(call, input, 1, last_parameter), input.device());
  return call.returns(allocated_like(input, format), statistics, statistics);
}

/// The reserve is empty: it is only used by batch norms fused with later operators.
bool cudnn_batch_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  if (!contiguous_format(input) || !input.is_cuda() || input.scalar_type() == at::kDouble)
    return false;
  const Spec statistics = contiguous(call.tensor(1), {call.boolean(5) ? input.size(1) : 0});
  return call.returns(allocated_like(input, input.suggest_memory_format()), statistics, statistics,
                      fresh({0}, at::kByte, input.device()));
}

bool cudnn_batch_norm_backward(Call& call) {
  const at::Tensor& input = call.tensor(0);
  return contiguous_format(input) && input.is_cuda() &&
         call.returns(allocated_like(input, input.suggest_memory_format())) &&
         twice<contiguous_like<2>>(call);
}

/// `Training` is the argument with the training flag; none: always (or never) training.
template <size_t Training>
bool batch_norm(Call& call) {
  return batch_norm_outputs(call, call.boolean(Training), Training == 5);
}

bool batch_norm_no_training(Call& call) { return batch_norm_outputs(call, false, true); }

bool returns_running(Call& call) {
  return call.returns(like(call.tensor(3)), like(call.tensor(4)));
}

bool batch_norm_functional(Call& call) { return batch_norm<5>(call) && returns_running(call); }

bool batch_norm_with_update(Call& call) {
  const at::Tensor& input = call.tensor(0);
  if (!input.is_cpu()) return false;  // cuDNN decides the size of the reserve
  return batch_norm_outputs(call, true, true) &&
         call.returns(fresh({0}, at::kByte, input.device())) && returns_running(call);
}

bool native_batch_norm_backward(Call& call) {
  constexpr size_t kMask = 9, kWeight = 2;
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& input = call.tensor(1);
  if (input.dim() < 2) return false;
  if (!input.is_cpu()) {
    // Several kernels by layout, which differ in what they return for outputs that are not
    // requested. Stated here are the plain one and, in training, the one for channels-last.
    const auto format = contiguous_format(input);
    if (!format || contiguous_format(grad) != format || !mask(call, kMask, 0)) return false;
    const bool channels_last = *format != at::MemoryFormat::Contiguous;
    if (channels_last) {
      if (!call.boolean(7) || !mask(call, kMask, 1) || !mask(call, kMask, 2)) return false;
      const auto spatial = input.sizes().slice(2);
      if (std::count(spatial.begin(), spatial.end(), 1) > 0) return false;
      if (!call.is_none(kWeight) && !call.tensor(kWeight).is_contiguous()) return false;
    } else if (input.is_contiguous(at::MemoryFormat::ChannelsLast) ||
               input.is_contiguous(at::MemoryFormat::ChannelsLast3d) || input.stride(1) == 1) {
      return false;
    }
    call.returns(channels_last ? allocated_like(input) : contiguous(input, input.sizes()));
    return returns_if(call, kMask, 1, kWeight) && returns_if(call, kMask, 2, kWeight);
  }
  const at::ScalarType dtype = statistics_dtype(call, input, kWeight, 4);
  const Spec parameter = fresh({input.size(1)}, dtype, input.device());
  at::MemoryFormat format = input.suggest_memory_format();
  if (contiguous_format(grad) && grad.suggest_memory_format() == format) {
    format = contiguous_format(input).value_or(format);
  }
  return call.returns(mask(call, kMask, 0) ? allocated_like(input, format) : undefined(),
                      mask(call, kMask, 1) ? parameter : undefined(),
                      mask(call, kMask, 2) ? parameter : undefined());
}

bool batch_norm_backward(Call& call) {
  // On CUDA it depends on the backend that ran the forward.
  return call.tensor(1).is_cpu() && native_batch_norm_backward(call);
}

}  // namespace

constexpr Family norm_family = {
    {"aten::_batch_norm_with_update_functional", batch_norm_with_update},
    {"aten::_native_batch_norm_legit", batch_norm<5>},
    {"aten::_native_batch_norm_legit.no_stats", batch_norm<3>},
    {"aten::_native_batch_norm_legit_functional", batch_norm_functional},
    {"aten::_native_batch_norm_legit_no_training", batch_norm_no_training},
    {"aten::_fused_rms_norm", rms_norm},
    {"aten::_fused_rms_norm_backward", rms_norm_backward},
    {"aten::batch_norm_backward", batch_norm_backward},
    {"aten::cudnn_batch_norm", cudnn_batch_norm},
    {"aten::cudnn_batch_norm_backward", cudnn_batch_norm_backward},
    {"aten::native_batch_norm", batch_norm<5>},
    {"aten::native_batch_norm_backward", native_batch_norm_backward},
    {"aten::native_group_norm", group_norm},
    {"aten::native_group_norm_backward", group_norm_backward},
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", layer_norm_backward},
};

}  // namespace antegrad::shapes
