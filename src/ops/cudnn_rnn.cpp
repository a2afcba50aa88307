// cuDNN's recurrent networks. cuDNN wants the weights one after another in a buffer of a layout of
// its own. at::lstm() and its relatives find out whether the weights lie like that by comparing
// addresses, which stand-ins do not have. Programs call `_cudnn_rnn` without the buffer, and the
// kernel here finds it, so that weights that flatten_parameters() has put there are not copied.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace antegrad::ops {
namespace {

using torch::jit::Stack;

// Arguments of _cudnn_rnn by position.
enum Argument : size_t {
  kInput,
  kWeights,
  kWeightsPerLayer,
  kWeightBuffer,
  kHidden,
  kCell,
  kMode,
  kHiddenSize,
  kProjectionSize,
  kLayers,
  kBatchFirst,
  kDropout,
  kTrain,
  kBidirectional,
  kBatchSizes,
  kDropoutState,
  kArguments
};

// The layout of a buffer: where each weight begins, and the number of elements.
struct Layout {
  std::vector<int64_t> offsets;
  int64_t size = 0;
};

at::Tensor flattened(const Stack& stack, const std::vector<at::Tensor>& weights) {
  const auto at = [&](Argument i) -> const c10::IValue& {
    return torch::jit::peek(stack, i, kArguments);
  };
  return at::_cudnn_rnn_flatten_weight(
      weights, at(kWeightsPerLayer).toInt(), at(kInput).toTensor().size(-1), at(kMode).toInt(),
      at(kHiddenSize).toInt(), at(kProjectionSize).toInt(), at(kLayers).toInt(),
      at(kBatchFirst).toBool(), at(kBidirectional).toBool());
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& weights) {
  std::vector<at::Tensor> copies;
  for (const auto& weight : weights) copies.push_back(weight.clone());
  return copies;
}

// cuDNN is asked once for each configuration.
const Layout& layout_of(const Stack& stack, const std::vector<at::Tensor>& weights) {
  const auto number = [&](Argument i) { return torch::jit::peek(stack, i, kArguments).toInt(); };
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, size_t,
                         at::ScalarType>;
  static std::mutex mutex;
  static auto* known = new std::map<Key, Layout>();
  const Key key(number(kWeightsPerLayer),
                torch::jit::peek(stack, kInput, kArguments).toTensor().size(-1), number(kMode),
                number(kHiddenSize), number(kProjectionSize), number(kLayers),
                torch::jit::peek(stack, kBidirectional, kArguments).toBool(), weights.size(),
                weights[0].scalar_type());
  const std::lock_guard lock(mutex);
  auto& layout = (*known)[key];
  if (layout.size > 0) return layout;
  const auto copies = copies_of(weights);
  const auto buffer = flattened(stack, copies);  // the copies are views of it from now on
  for (const auto& copy : copies) layout.offsets.push_back(copy.storage_offset());
  layout.size = buffer.numel();
  return layout;
}

// The memory of the weights if they lie as cuDNN wants them, otherwise a copy that does.
at::Tensor weight_buffer(const Stack& stack, const std::vector<at::Tensor>& weights) {
  const auto& layout = layout_of(stack, weights);
  const auto& storage = weights[0].storage();
  bool flat = std::cmp_greater_equal(storage.nbytes(), layout.size * weights[0].element_size());
  for (size_t i = 0; flat && i < weights.size(); ++i) {
    flat = weights[i].storage().is_alias_of(storage) && weights[i].is_contiguous() &&
           weights[i].storage_offset() == layout.offsets[i];
  }
  if (!flat) return flattened(stack, copies_of(weights));
  return at::empty({0}, weights[0].options()).set_(storage, 0, {layout.size}, {1});
}

void forward(const c10::OperatorHandle& /*op*/, Stack* stack) {
  static const auto kernel = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_cudnn_rnn", "");
  auto& buffer = torch::jit::peek(*stack, kWeightBuffer, kArguments);
  const auto weights = torch::jit::peek(*stack, kWeights, kArguments).toTensorVector();
  const bool given = buffer.isTensor() && buffer.toTensor().defined();
  if (!given && !weights.empty()) buffer = weight_buffer(*stack, weights);
  kernel.callBoxed(stack);
}

// The kernel writes the reserve, which the forward made. A program that runs its backward once more
// needs it as it was.
void backward(const c10::OperatorHandle& op, Stack* stack) {
  constexpr size_t kReserve = 20;
  static const auto kernel =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_cudnn_rnn_backward", "");
  auto& value = torch::jit::peek(*stack, kReserve, op.schema().arguments().size());
  const auto& reserve = value.toTensor();
  if (reserve.use_count() > 1 || reserve.storage().use_count() > 1) value = reserve.clone();
  kernel.callBoxed(stack);
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def(
      "_cudnn_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor? weight_buf, Tensor "
      "hx, Tensor? cx, int mode, SymInt hidden_size, SymInt proj_size, int num_layers, bool "
      "batch_first, float dropout, bool train, bool bidirectional, SymInt[] batch_sizes, Tensor? "
      "dropout_state) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.impl("_cudnn_rnn", c10::DispatchKey::CUDA,
               torch::CppFunction::makeFromBoxedFunction<&forward>());
  library.def(
      "_cudnn_rnn_backward(Tensor input, Tensor[] weight, int weight_stride0, Tensor weight_buf, "
      "Tensor hx, Tensor? cx, Tensor output, Tensor? grad_output, Tensor? grad_hy, Tensor? "
      "grad_cy, int mode, SymInt hidden_size, SymInt proj_size, int num_layers, bool batch_first, "
      "float dropout, bool train, bool bidirectional, SymInt[] batch_sizes, Tensor? "
      "dropout_state, Tensor reserve, bool[4] output_mask) -> (Tensor, Tensor, Tensor, Tensor[])");
  library.impl("_cudnn_rnn_backward", c10::DispatchKey::CUDA,
               torch::CppFunction::makeFromBoxedFunction<&backward>());
}

}  // namespace
}  // namespace antegrad::ops
