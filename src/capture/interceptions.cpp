#include "capture/interceptions.h"

#include <ATen/core/Tensor.h>
#include <antegrad/error.h>

#include <string>
#include <unordered_map>

#include "capture/data_questions.h"
#include "capture/tracer.h"

namespace antegrad::capture {
namespace {

using torch::jit::Stack;
using Handler = bool (*)(const ops::OpEntry& entry, Stack* stack);

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw CaptureError(what, {"computation on tensors",
                            what + " inside the compiled callable, at " + call_site(), remedy});
}

bool refuse_set_data(const ops::OpEntry& entry, Stack* /*stack*/) {
  refuse(entry.op.info().base_name, "change parameters between calls");
}

bool refuse_retain_grad(const ops::OpEntry& entry, Stack* /*stack*/) {
  refuse(entry.op.info().base_name, "return the tensor and call retain_grad() on the result");
}

// On a tensor of the callable's own it is harmless; on what outlives the call it is a side effect.
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
  const bool answer = assume_equal(a, b);
  torch::jit::drop(*stack, 2);
  stack->emplace_back(answer);
  return true;
}

const std::unordered_map<std::string, Handler>& handlers() {
  static const auto* table = new std::unordered_map<std::string, Handler>{
      {"aten::set_data.default", refuse_set_data},
      {"aten::retain_grad.default", refuse_retain_grad},
      {"aten::requires_grad_.default", requires_grad},
      {"aten::equal.default", equal},
  };
  return *table;
}

}  // namespace

bool intercept(const ops::OpEntry& entry, Stack* stack) {
  // Looked up once an operator: most calls are not intercepted and must not hash a name.
  static thread_local std::unordered_map<const ops::OpEntry*, Handler> seen;
  const auto [it, inserted] = seen.try_emplace(&entry, nullptr);
  if (inserted) {
    const auto found = handlers().find(entry.op.name());
    if (found != handlers().end()) it->second = found->second;
  }
  return it->second != nullptr && it->second(entry, stack);
}

}  // namespace antegrad::capture
