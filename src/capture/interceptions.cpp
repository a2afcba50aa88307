#include "capture/interceptions.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/List.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <antegrad/error.h>
#include <antegrad/inside.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

#include "capture/collectives.h"
#include "capture/cudnn.h"
#include "capture/data_questions.h"
#include "capture/norms.h"
#include "capture/tracer.h"
#include "capture/writing.h"

namespace antegrad::capture {
namespace {

using torch::jit::Stack;
using Handler = bool (*)(const ops::OpEntry& entry, Stack* stack);

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw CaptureError(what, {"computation on tensors",
                            what + " inside the compiled callable, at " + call_site(), remedy});
}

// Replaces the arguments of a call, the last `count` on the stack, by its result.
bool answer(Stack* stack, size_t count, c10::IValue result) {
  torch::jit::drop(*stack, count);
  stack->push_back(std::move(result));
  return true;
}

bool refuse_set_data(const ops::OpEntry& entry, Stack* /*stack*/) {
  refuse(entry.op.info().base_name, "change parameters between calls");
}

// Harmless on a tensor that the callable made, but a side effect on one that outlives the call.
bool requires_grad(const ops::OpEntry& entry, Stack* stack) {
  const auto args = torch::jit::last(*stack, 2);
  const auto& self = args[0].toTensor();
  if (self.requires_grad() == args[1].toBool()) return false;
  if (Tracer::current()->root_of_wrapper(self) < 0) return false;
  refuse(entry.op.info().base_name, "set requires_grad between calls, or use detach() inside");
}

bool equal(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto args = torch::jit::last(*stack, 2);
  const auto& a = args[0].toTensor();
  const auto& b = args[1].toTensor();
  if (inside_wrapper(a) == nullptr || inside_wrapper(b) == nullptr) return false;
  return answer(stack, 2, assume_equal(a, b));
}

bool is_nonzero(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto self = torch::jit::peek(*stack, 0, 1).toTensor();
  if (inside_wrapper(self) == nullptr || self.numel() != 1) return false;
  return answer(stack, 1, assume_truth(self));
}

bool allclose(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto args = torch::jit::last(*stack, 5);
  const at::NoGradGuard no_grad;
  const auto close = at::isclose(args[0].toTensor(), args[1].toTensor(), args[2].toDouble(),
                                 args[3].toDouble(), args[4].toBool());
  return answer(stack, 5, assume_truth(close.all()));
}

bool local_scalar(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto self = torch::jit::peek(*stack, 0, 1).toTensor();
  if (inside_wrapper(self) == nullptr) return false;
  auto number = assume_number(self);
  if (!number) {
    refuse_question("aten::_local_scalar_dense",
                    "a floating-point number, which is another in each call");
  }
  return answer(stack, 1, std::move(*number));
}

// nn.TransformerEncoder asks whether a mask is set in the leading elements of each row only.
bool is_left_aligned(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto mask = torch::jit::peek(*stack, 1, 2).toTensor();
  if (mask.scalar_type() != at::kBool || mask.dim() != 2 || mask.size(1) == 0) return false;
  return answer(stack, 2, assume_truth(mask.slice(1, 0, -1).ge(mask.slice(1, 1)).all()));
}

// The mean divides by the lengths of the targets, of which libtorch makes a tensor.
bool ctc_loss(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto args = torch::jit::last(*stack, 7);
  if (args[5].toInt() != at::Reduction::Mean) return false;
  const auto lengths = args[3].toIntVector();
  const auto losses = at::ctc_loss(args[0].toTensor(), args[1].toTensor(), args[2].toIntVector(),
                                   lengths, args[4].toInt(), at::Reduction::None, args[6].toBool());
  const auto options = at::TensorOptions().dtype(losses.scalar_type()).device(losses.device());
  const auto divisors = constant([&] { return at::tensor(lengths, options).clamp_min_(1); });
  return answer(stack, 7, losses.div(divisors).mean());
}

// Eager reads the data to check the classes before it scatters. Scatter checks them in each call.
bool one_hot(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto args = torch::jit::last(*stack, 2);
  const auto self = args[0].toTensor();
  const auto classes = args[1].toInt();
  if (classes <= 0 || self.scalar_type() != at::kLong) return false;
  auto sizes = self.sizes().vec();
  sizes.push_back(classes);
  auto out = at::zeros(sizes, self.options());
  out.scatter_(-1, self.unsqueeze(-1), 1);
  return answer(stack, 2, std::move(out));
}

// index_put with masks for values that require grad: the derivative would select by the masks.
// Masks are replaced by indices, as in the kernel itself, since only the forward can ask for their
// number.
bool index_put(const ops::OpEntry& entry, Stack* stack) {
  const auto count = entry.args.size();
  if (!at::GradMode::is_enabled() ||
      !torch::jit::peek(*stack, 2, count).toTensor().requires_grad()) {
    return false;
  }
  auto& indices = torch::jit::peek(*stack, 1, count);
  bool masks = false;
  c10::List<std::optional<at::Tensor>> places;
  for (const std::optional<at::Tensor> index : indices.toOptionalTensorList()) {
    if (!index || !index->defined() || index->scalar_type() != at::kBool || index->dim() == 0) {
      places.push_back(index);
      continue;
    }
    masks = true;
    for (const auto& column : at::nonzero(*index).unbind(1)) places.push_back(column);
  }
  if (!masks) return false;
  indices = std::move(places);
  entry.handle.callBoxed(stack);
  return true;
}

// Functionalisation writes an expanded tensor back as base + (new - old), which rounds. If no
// element is repeated, a view shows the same elements. (But the derivative of expand sums to a
// scalar, which turns -0 into 0.)
bool expand(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto args = torch::jit::last(*stack, 3);
  const auto self = args[0].toTensor();
  auto sizes = args[1].toIntVector();
  if (sizes.size() < self.sizes().size()) return false;  // libtorch reports the error
  if (self.dim() == 0 && self.requires_grad()) return false;
  const auto added = sizes.size() - self.sizes().size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto present = d < added ? 1 : self.sizes()[d - added];
    if (d >= added && sizes[d] == -1) sizes[d] = present;
    if (sizes[d] != present) return false;
  }
  auto view = added == 0 ? at::alias(self) : self.view(sizes);
  return answer(stack, 3, std::move(view));
}

// A tensor made from host data just now, for example by torch.tensor in Python. It becomes a
// constant of the program, and the callable gets a copy, which it may write.
bool lift_fresh(const ops::OpEntry& /*entry*/, Stack* stack) {
  auto& tracer = *Tracer::current();
  const auto fresh = torch::jit::peek(*stack, 0, 1).toTensor();
  const auto index = tracer.root_of_wrapper(fresh);
  if (index < 0) return false;
  auto& source = tracer.roots()[index].source;
  if (source.kind != Source::Kind::none) return false;
  source.kind = Source::Kind::constant;
  return answer(stack, 1, fresh.clone());
}

// Derivatives create zero tensors without memory, for operators that support them.
bool efficient_zeros(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto args = torch::jit::last(*stack, 5);
  auto zeros = at::zeros(args[0].toIntVector(), at::TensorOptions()
                                                    .dtype(args[1].toOptional<at::ScalarType>())
                                                    .device(args[3].toOptional<c10::Device>()));
  return answer(stack, 5, std::move(zeros));
}

// In-place operators that overwrite a tensor with random numbers: see OpEntry::twin. The functional
// forms fill a contiguous tensor; for other strides, the result is copied into the tensor.
bool fill_at_random(const ops::OpEntry& entry, Stack* stack) {
  const auto count = entry.args.size();
  auto& tracer = *Tracer::current();
  auto self = torch::jit::peek(*stack, 0, count).toTensor();
  if (self.is_contiguous()) return false;
  Stack inner;
  for (const auto& value : torch::jit::last(*stack, count)) inner.push_back(unwrapped(value));
  tracer.record(*entry.twin, &inner);
  const at::Tensor filled = inner.back().toTensorList().get(0);
  self.copy_(at::functionalization::impl::to_functional_tensor(filled));
  return answer(stack, count, std::move(self));
}

// A layer whose statistics are those of several ranks.
bool batch_norm(const ops::OpEntry& /*entry*/, Stack* stack) {
  constexpr size_t kCount = 9;
  const auto args = torch::jit::last(*stack, kCount);
  const auto given = [](const c10::IValue& value) {
    auto tensor = value.isNone() ? at::Tensor() : value.toTensor();
    return tensor.defined() ? std::optional(std::move(tensor)) : std::nullopt;
  };
  const auto running_mean = given(args[3]), running_var = given(args[4]);
  const bool training = args[5].toBool();
  if (!training || !running_mean || !running_var) return false;
  const auto& tracer = *Tracer::current();
  const auto root = tracer.root_of_wrapper(*running_mean);
  const auto norm = root < 0 ? nullptr : norm_with(tracer.roots()[root].real);
  if (!norm) return false;
  auto result = norm->compute({args[0].toTensor(), given(args[1]), given(args[2]), *running_mean,
                               *running_var, args[6].toDouble(), args[7].toDouble()});
  return answer(stack, kCount, std::move(result));
}

bool resize_storage(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto args = torch::jit::last(*stack, 2);
  Tracer::current()->resize(args[0].toTensor(), args[1].toSymInt().guard_int(__FILE__, __LINE__));
  torch::jit::drop(*stack, 2);
  return true;
}

// Writes each target on its own where one has no data, which it would otherwise read.
bool foreach_copy(const ops::OpEntry& /*entry*/, Stack* stack) {
  const auto args = torch::jit::last(*stack, 3);
  const auto targets = args[0].toTensorVector(), sources = args[1].toTensorVector();
  const bool non_blocking = args[2].toBool();
  const auto lacks_data = [](const at::Tensor& t) { return Tracer::current()->lacks_data(t); };
  if (targets.size() != sources.size() || std::ranges::none_of(targets, lacks_data)) return false;
  for (size_t i = 0; i < targets.size(); ++i) targets[i].copy_(sources[i], non_blocking);
  torch::jit::drop(*stack, 3);
  return true;
}

const std::unordered_map<std::string, Handler>& handlers() {
  static const auto* table = new std::unordered_map<std::string, Handler>{
      {"aten::_efficientzerotensor.default", efficient_zeros},
      {"aten::_foreach_copy_.default", foreach_copy},
      {"aten::expand.default", expand},
      {"aten::lift_fresh.default", lift_fresh},
      {"aten::set_data.default", refuse_set_data},
      {"aten::requires_grad_.default", requires_grad},
      {"aten::allclose.default", allclose},
      {"aten::equal.default", equal},
      {"aten::index_put.default", index_put},
      {"aten::index_put_.default", index_put},
      {"aten::is_nonzero.default", is_nonzero},
      {"aten::_local_scalar_dense.default", local_scalar},
      {"aten::one_hot.default", one_hot},
      {"aten::_nested_tensor_from_mask_left_aligned.default", is_left_aligned},
      {"aten::batch_norm.default", batch_norm},
      {"aten::ctc_loss.IntList", ctc_loss},
      {"_c10d_functional::wait_tensor.default", wait_for_collective},
      {"_c10d_functional::_wrap_tensor_autograd.default", wait_for_collective},
      {"antegrad::resize_storage_.default", resize_storage},
      {"inductor::resize_storage_bytes_.default", resize_storage},
      {"aten::gru.input", cudnn_rnn},
      {"aten::lstm.input", cudnn_rnn},
      {"aten::rnn_relu.input", cudnn_rnn},
      {"aten::rnn_tanh.input", cudnn_rnn},
      {"aten::_use_cudnn_ctc_loss.default", uses_library_ctc_loss},
      {"aten::_use_cudnn_ctc_loss.Tensor", uses_library_ctc_loss},
      {"aten::_use_miopen_ctc_loss.default", uses_library_ctc_loss},
      {"aten::_use_miopen_ctc_loss.Tensor", uses_library_ctc_loss},
  };
  return *table;
}

}  // namespace

bool intercept(const ops::OpEntry& entry, Stack* stack) {
  // Looked up once per operator: most calls are not intercepted and must not hash a name.
  static thread_local std::unordered_map<const ops::OpEntry*, Handler> seen;
  const auto [it, inserted] = seen.try_emplace(&entry, nullptr);
  if (inserted) {
    const auto found = handlers().find(entry.op.name());
    if (found != handlers().end()) {
      it->second = found->second;
    } else if (is_collective(entry)) {
      it->second = check_collective;
    } else if (entry.twin && !entry.own_functionalize) {
      it->second = fill_at_random;
    }
  }
  return it->second != nullptr && it->second(entry, stack);
}

}  // namespace antegrad::capture
