/// \file
/// Layer, group and batch normalisation with their derivatives. Statistics are kept in the input's
/// dtype on the CPU, in float when parameters are wider than the input ("mixed"), and in the
/// accumulation dtype on CUDA.

#include <algorithm>
#include <functional>
#include <numeric>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

const at::Tensor* optional_tensor(const Call& call, size_t i) {
  if (call.is_none(i) || !call.arg(i).toTensor().defined()) return nullptr;
  return &call.arg(i).toTensor();
}

/// The dtype of statistics: the first parameter that is there decides.
at::ScalarType statistics_dtype(const Call& call, const at::Tensor& input,
                                std::span<const size_t> parameters) {
  if (!input.is_cpu()) return accumulate_type(input.scalar_type());
  for (const size_t i : parameters) {
    if (const at::Tensor* t = optional_tensor(call, i)) {
      return t->scalar_type() == input.scalar_type() ? input.scalar_type() : at::kFloat;
    }
  }
  return input.scalar_type();
}

at::ScalarType statistics_dtype(const Call& call, const at::Tensor& input,
                                std::initializer_list<size_t> parameters) {
  return statistics_dtype(call, input, std::span(parameters.begin(), parameters.size()));
}

/// The format in which a tensor is contiguous, as the batch norm kernels on the CPU ask it.
/// Nothing when it is not.
std::optional<at::MemoryFormat> contiguous_format(const at::Tensor& t) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                            at::MemoryFormat::ChannelsLast3d}) {
    if (t.is_contiguous(format)) return format;
  }
  return std::nullopt;
}

/// A contiguous gradient of `parameter` if the mask asks for it; false when it cannot be had.
bool returns_if(Call& call, bool wanted, const at::Tensor* parameter) {
  if (!wanted) {
    call.returns(undefined());
    return true;
  }
  if (!parameter) return false;
  call.returns(contiguous(*parameter, parameter->sizes()));
  return true;
}

bool layer_norm(Call& call) {
  const at::Tensor& input = call.arg(0).toTensor();
  const at::DimVector normalized = call.arg(1).toDimVector();
  const int64_t axis = input.dim() - static_cast<int64_t>(normalized.size());
  if (axis < 0 || normalized.empty()) return false;
  if (!input.sizes().slice(axis).equals(normalized)) return false;
  for (const size_t i : {2, 3}) {
    const at::Tensor* t = optional_tensor(call, i);
    if (t && !t->sizes().equals(normalized)) return false;
  }
  Dims statistics(input.dim(), 1);
  for (int64_t i = 0; i < axis; ++i) statistics[i] = input.size(i);
  const at::ScalarType dtype = statistics_dtype(call, input, {2, 3});
  call.returns(contiguous(input, input.sizes()));
  call.returns(fresh(statistics, dtype, input.device()));
  call.returns(fresh(statistics, dtype, input.device()));
  return true;
}

bool layer_norm_backward(Call& call) {
  const at::Tensor& input = call.arg(1).toTensor();
  return returns_if(call, mask(call, 7, 0), &input) &&
         returns_if(call, mask(call, 7, 1), optional_tensor(call, 5)) &&
         returns_if(call, mask(call, 7, 2), optional_tensor(call, 6));
}

/// CUDA only: elsewhere it is made of other operators.
bool rms_norm(Call& call) {
  const at::Tensor& input = call.arg(0).toTensor();
  const at::DimVector normalized = call.arg(1).toDimVector();
  const int64_t axis = input.dim() - static_cast<int64_t>(normalized.size());
  if (!input.is_cuda() || axis < 0 || normalized.empty()) return false;
  if (!input.sizes().slice(axis).equals(normalized)) return false;
  Dims statistics(input.dim(), 1);
  for (int64_t i = 0; i < axis; ++i) statistics[i] = input.size(i);
  call.returns(contiguous(input, input.sizes()));
  call.returns(fresh(statistics, accumulate_type(input.scalar_type()), input.device()));
  return true;
}

bool rms_norm_backward(Call& call) {
  const at::Tensor& input = call.arg(1).toTensor();
  return input.is_cuda() && returns_if(call, mask(call, 5, 0), &input) &&
         returns_if(call, mask(call, 5, 1), optional_tensor(call, 4));
}

at::MemoryFormat group_norm_format(const at::Tensor& input) {
  return input.is_cpu() ? input.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

bool group_norm(Call& call) {
  const at::Tensor& input = call.arg(0).toTensor();
  const at::MemoryFormat format = group_norm_format(input);
  const int64_t groups = call.integer(6);
  if (!input.is_contiguous(format) || groups <= 0 || call.integer(4) % groups != 0) return false;
  at::ScalarType dtype = input.scalar_type();
  for (const size_t i : {2, 1}) {
    const at::Tensor* t = optional_tensor(call, i);
    if (t) dtype = t->scalar_type() == input.scalar_type() ? input.scalar_type() : at::kFloat;
  }
  const Dims statistics = {call.integer(3), groups};
  call.returns(allocated_like(input, format));
  call.returns(fresh(statistics, dtype, input.device()));
  call.returns(fresh(statistics, dtype, input.device()));
  return true;
}

bool group_norm_backward(Call& call) {
  const at::Tensor& input = call.arg(1).toTensor();
  const at::Tensor* weight = optional_tensor(call, 4);
  call.returns(mask(call, 9, 0) ? allocated_like(input, group_norm_format(input)) : undefined());
  return returns_if(call, mask(call, 9, 1), weight) && returns_if(call, mask(call, 9, 2), weight);
}

/// The three outputs of every batch norm of `input` with the parameters at 1, 2 and, where
/// `has_running`, running statistics at 3, 4.
bool batch_norm_outputs(Call& call, bool training, bool has_running) {
  const at::Tensor& input = call.arg(0).toTensor();
  if (input.dim() < 2) return false;
  constexpr size_t kParameters[] = {1, 2, 3, 4};
  const std::span<const size_t> parameters(kParameters, has_running ? 4 : 2);
  bool contiguous_parameters = true;
  for (const size_t i : parameters) {
    const at::Tensor* t = optional_tensor(call, i);
    if (t && (t->dim() != 1 || t->size(0) != input.size(1))) return false;
    contiguous_parameters = contiguous_parameters && (!t || t->is_contiguous());
  }
  if (!training && !(has_running && optional_tensor(call, 3) && optional_tensor(call, 4))) {
    return false;
  }
  const at::ScalarType dtype = statistics_dtype(call, input, parameters);
  if (input.is_cpu()) {
    const at::MemoryFormat suggested = input.suggest_memory_format();
    call.returns(allocated_like(
        input, contiguous_parameters ? contiguous_format(input).value_or(suggested) : suggested));
  } else {
    call.returns(allocated_like(input));
  }
  const Dims channels = {training || !input.is_cpu() ? input.size(1) : 0};
  call.returns(fresh(channels, dtype, input.device()));
  call.returns(fresh(channels, dtype, input.device()));
  return true;
}

/// The reserve is empty: only batch norms fused with what follows them use it.
bool cudnn_batch_norm(Call& call) {
  const at::Tensor& input = call.arg(0).toTensor();
  const auto format = contiguous_format(input);
  if (!format || !input.is_cuda() || input.scalar_type() == at::kDouble) return false;
  const Dims channels = {call.boolean(5) ? input.size(1) : 0};
  const at::Tensor& weight = call.arg(1).toTensor();
  call.returns(allocated_like(input, input.suggest_memory_format()));
  call.returns(contiguous(weight, channels));
  call.returns(contiguous(weight, channels));
  call.returns(fresh({0}, at::kByte, input.device()));
  return true;
}

bool cudnn_batch_norm_backward(Call& call) {
  const at::Tensor& input = call.arg(0).toTensor();
  const at::Tensor& weight = call.arg(2).toTensor();
  if (!contiguous_format(input) || !input.is_cuda()) return false;
  call.returns(allocated_like(input, input.suggest_memory_format()));
  call.returns(contiguous(weight, weight.sizes()));
  call.returns(contiguous(weight, weight.sizes()));
  return true;
}

/// Training flag at `Training`; none: always training (or never).
template <size_t Training>
bool batch_norm(Call& call) {
  return batch_norm_outputs(call, call.boolean(Training), Training == 5);
}

bool batch_norm_no_training(Call& call) { return batch_norm_outputs(call, false, true); }

bool returns_running(Call& call) {
  call.returns(like(call.arg(3).toTensor()));
  call.returns(like(call.arg(4).toTensor()));
  return true;
}

bool batch_norm_functional(Call& call) { return batch_norm<5>(call) && returns_running(call); }

bool batch_norm_with_update(Call& call) {
  const at::Tensor& input = call.arg(0).toTensor();
  if (!input.is_cpu()) return false;  // cuDNN decides the size of its reserve
  if (!batch_norm_outputs(call, true, true)) return false;
  call.returns(fresh({0}, at::kByte, input.device()));
  return returns_running(call);
}

bool batch_norm_backward_of(Call& call, const at::Tensor& grad, const at::Tensor& input) {
  const size_t kMask = 9;
  if (input.dim() < 2) return false;
  const at::Tensor* weight = optional_tensor(call, 2);
  if (!input.is_cpu()) {
    // Several kernels by layout, which differ in what they return when it is not asked for: the
    // plain one and, when training, the one for channels-last are stated here.
    const auto format = contiguous_format(input);
    if (!format || contiguous_format(grad) != format || !mask(call, kMask, 0)) return false;
    const bool channels_last = *format != at::MemoryFormat::Contiguous;
    if (channels_last) {
      if (!call.boolean(7) || !mask(call, kMask, 1) || !mask(call, kMask, 2)) return false;
      const auto spatial = input.sizes().slice(2);
      if (std::count(spatial.begin(), spatial.end(), 1) > 0) return false;
      if (weight != nullptr && !weight->is_contiguous()) return false;
    } else if (input.is_contiguous(at::MemoryFormat::ChannelsLast) ||
               input.is_contiguous(at::MemoryFormat::ChannelsLast3d) || input.stride(1) == 1) {
      return false;
    }
    call.returns(channels_last ? allocated_like(input) : contiguous(input, input.sizes()));
    return returns_if(call, mask(call, kMask, 1), weight) &&
           returns_if(call, mask(call, kMask, 2), weight);
  }
  const at::ScalarType dtype = statistics_dtype(call, input, {2, 3, 4});
  const Spec parameter = fresh({input.size(1)}, dtype, input.device());
  at::MemoryFormat format = input.suggest_memory_format();
  if (contiguous_format(grad) && grad.suggest_memory_format() == format) {
    format = contiguous_format(input).value_or(format);
  }
  call.returns(mask(call, kMask, 0) ? allocated_like(input, format) : undefined());
  call.returns(mask(call, kMask, 1) ? parameter : undefined());
  call.returns(mask(call, kMask, 2) ? parameter : undefined());
  return true;
}

bool native_batch_norm_backward(Call& call) {
  return batch_norm_backward_of(call, call.arg(0).toTensor(), call.arg(1).toTensor());
}

bool batch_norm_backward(Call& call) {
  // On CUDA the backend that ran forward decides.
  return call.arg(1).toTensor().is_cpu() && native_batch_norm_backward(call);
}

constexpr Entry kNormsTable[] = {
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

}  // namespace

std::span<const Entry> norm_family() { return kNormsTable; }

}  // namespace antegrad::shapes
