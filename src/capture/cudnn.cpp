#include "capture/cudnn.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/_use_cudnn_ctc_loss.h>
#include <ATen/ops/cudnn_is_acceptable.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/le.h>
#include <ATen/ops/lt.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>
#include <string>
#include <vector>

#include "capture/call_site.h"
#include "capture/data_questions.h"
#include "capture/outside.h"
#include "ops/tensors_in.h"

namespace antegrad::capture {
namespace {

using torch::jit::Stack;

// cuDNN's numbers of the kinds of networks.
int64_t mode_of(const std::string& base_name) {
  if (base_name == "aten::rnn_relu") return 0;
  if (base_name == "aten::rnn_tanh") return 1;
  return base_name == "aten::lstm" ? 2 : 3;
}

// Under autocast cuDNN always computes in half precision.
at::Tensor as_autocast(const at::Tensor& tensor) {
  return at::autocast::cached_cast(at::kHalf, tensor, at::kCUDA);
}

// A tensor of zeros outside of the capture, with the metadata of a wrapper.
at::Tensor zeros_for(const at::Tensor& wrapper) {
  const auto options = at::TensorOptions().dtype(wrapper.scalar_type()).device(wrapper.device());
  return at::empty_strided(wrapper.sizes(), wrapper.strides(), options).zero_();
}

}  // namespace

bool cudnn_rnn(const ops::OpEntry& entry, Stack* stack) {
  const auto args = torch::jit::last(*stack, entry.args.size());
  auto input = args[0].toTensor();
  if (!input.is_cuda() || !at::cudnn_is_acceptable(input)) return false;
  const bool lstm = args[1].isTensorList();
  auto hidden = lstm ? args[1].toTensorList().get(0) : args[1].toTensor();
  auto cell = lstm ? args[1].toTensorList().get(1) : at::Tensor();
  auto weights = args[2].toTensorVector();
  const bool has_biases = args[3].toBool(), train = args[6].toBool();
  const auto dropout = args[5].toDouble();
  if (train && dropout > 0) {
    throw CaptureError(
        entry.op.info().base_name,
        {"recurrent networks of cuDNN without dropout inside",
         "a probability of " + std::to_string(dropout) + ", called at " + call_site() +
             "; cuDNN draws from a state that libtorch hides",
         "use one network a layer with a dropout between them, or put it into ag::opaque"});
  }
  const auto hidden_size = (lstm ? cell : hidden).size(2);
  const auto projection = hidden.size(2) == hidden_size ? 0 : hidden.size(2);
  std::optional<c10::impl::ExcludeDispatchKeyGuard> no_autocast;
  if (at::autocast::is_autocast_enabled(at::kCUDA)) {
    input = as_autocast(input);
    hidden = as_autocast(hidden);
    if (lstm) cell = as_autocast(cell);
    for (auto& weight : weights) weight = as_autocast(weight);
    no_autocast.emplace(c10::DispatchKey::AutocastCUDA);
  }
  const auto result = at::_cudnn_rnn(
      input, weights, (has_biases ? 4 : 2) + (projection != 0), /*weight_buf=*/{}, hidden,
      lstm ? std::optional(cell) : std::nullopt, mode_of(entry.op.info().base_name), hidden_size,
      projection, args[4].toInt(), args[8].toBool(), dropout, train, args[7].toBool(),
      /*batch_sizes=*/{}, /*dropout_state=*/{});
  torch::jit::drop(*stack, entry.args.size());
  stack->emplace_back(std::get<0>(result));
  stack->emplace_back(std::get<1>(result));
  if (lstm) stack->emplace_back(std::get<2>(result));
  return true;
}

bool uses_library_ctc_loss(const ops::OpEntry& entry, Stack* stack) {
  const auto args = torch::jit::last(*stack, entry.args.size()).vec();
  Stack on_zeros;
  {
    const OutsideCapture outside;
    for (const auto& arg : args) on_zeros.push_back(ops::map_tensors(arg, zeros_for));
    entry.handle.callBoxed(on_zeros);
  }
  bool uses = on_zeros.back().toBool();
  // The conditions of MIOpen are others.
  if (uses && entry.op.info().base_name != "aten::_use_cudnn_ctc_loss") return false;
  if (uses && args[2].isTensor()) {  // lengths of 0 fit
    const auto input_lengths = args[2].toTensor(), target_lengths = args[3].toTensor();
    const auto fits =
        at::lt(target_lengths, 256)
            .logical_and_(at::le(target_lengths, input_lengths.to(target_lengths.device())));
    uses = assume_truth(fits.all());
  }
  torch::jit::drop(*stack, args.size());
  stack->emplace_back(uses);
  return true;
}

}  // namespace antegrad::capture
