#include "distributed/parameters.h"

#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <set>

#include "capture/placeholder.h"
#include "distributed/collectives.h"

namespace antegrad::distributed {
namespace {

/// Null, or why it cannot be shared.
const char* why_not(const at::Tensor& parameter) {
  if (!parameter.is_leaf()) return "one that is no leaf";
  if (!parameter.is_floating_point()) return "one that has no floating-point dtype";
  if (!parameter.is_contiguous() || parameter.storage_offset() != 0) {
    return "one that is not contiguous, or a view";
  }
  if (parameter.storage().use_count() > 1) return "one that shares its memory with another tensor";
  if (parameter.grad().defined()) return "one that has a gradient";
  return nullptr;
}

}  // namespace

void check_parameter(const Named& first, const Named& parameter) {
  if (const char* const found = why_not(parameter.second)) {
    throw InputError(
        ErrorText{"parameters that are contiguous leaves with memory of their own, "
                  "without gradients",
                  fmt::format("the parameter {}, {}", parameter.first, found),
                  "shard or replicate a module before it is used"});
  }
  if (parameter.second.device() == first.second.device()) return;
  throw InputError(
      ErrorText{fmt::format("parameters on one device ({} is on {})", first.first,
                            first.second.device().str()),
                fmt::format("{} on {}", parameter.first, parameter.second.device().str()),
                "move the module to one device"});
}

std::vector<Named> whole_parameters(const torch::nn::Module& module) {
  std::vector<Named> found;
  std::set<const c10::TensorImpl*> seen;
  for (const auto& named : module.named_parameters()) {
    const auto& parameter = named.value();
    if (!parameter.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    if (capture::placeholder_of(parameter) != nullptr) {
      throw InputError(ErrorText{"a module that is not sharded or replicated yet",
                                 "one whose parameter " + named.key() + " is",
                                 "shard or replicate each module once"});
    }
    found.emplace_back(named.key(), parameter);
    check_parameter(found.front(), found.back());
  }
  return found;
}

void broadcast_buffers(const torch::nn::Module& module, const Mesh& mesh) {
  const at::NoGradGuard no_grad;
  for (const auto& named : module.named_buffers()) {
    if (!named.value().defined() || named.value().numel() == 0) continue;
    auto whole = named.value().contiguous();
    broadcast_over(mesh, whole);
    if (!whole.is_same(named.value())) named.value().copy_(whole);
  }
}

}  // namespace antegrad::distributed
