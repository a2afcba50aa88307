#include "capture/collectives.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/data_access.h"
#include "capture/tracer.h"
#include "torch_compat/keys.h"

namespace antegrad::capture {
namespace {

bool is_of_c10d(const ops::OpEntry& entry) {
  return entry.op.info().base_name.starts_with("c10d::");
}

[[noreturn]] void refuse_collective(const ops::OpEntry& entry, const std::string& why) {
  throw CaptureError(
      entry.op.info().base_name,
      {"functional collectives inside a compiled callable", why + ", called at " + call_site(),
       "use _c10d_functional::all_reduce, all_gather_into_tensor, reduce_scatter_tensor, "
       "all_to_all_single or broadcast, and wait_tensor; in Python "
       "torch.distributed._functional_collectives"});
}

}  // namespace

bool wait_for_collective(const ops::OpEntry& /*entry*/, torch::jit::Stack* stack) {
  static const auto wait =
      c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "");
  torch::jit::Stack started = {torch::jit::peek(*stack, 0, 1)};
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard off(torch_compat::lift_key);
  DataAllowed allowed(Tracer::current()->data);
  allowed.add(started.front().toTensor());
  wait.callBoxed(started);
  return true;
}

bool is_collective(const ops::OpEntry& entry) {
  return is_of_c10d(entry) || (entry.op.traits().collective && !entry.op.traits().agreed);
}

bool check_collective(const ops::OpEntry& entry, torch::jit::Stack* /*stack*/) {
  if (is_of_c10d(entry)) {
    refuse_collective(entry, "one that writes its arguments and returns a handle");
  }
  // With libtorch 2.11 its gradient in a program had other bits than in eager mode; why is not
  // known.
  if (entry.op.info().base_name == "_c10d_functional_autograd::reduce_scatter_tensor") {
    refuse_collective(entry, "one whose gradient may differ from that of eager mode");
  }
  const bool makes_tensors = entry.writes.empty() && !entry.handle.schema().returns().empty();
  if (makes_tensors && entry.shape == nullptr) {
    refuse_collective(entry, "one that has no shape function");
  }
  return false;
}

}  // namespace antegrad::capture
