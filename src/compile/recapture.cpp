#include "compile/recapture.h"

#include <ATen/core/grad_mode.h>

#include "capture/doubles.h"
#include "torch_compat/autocast.h"

namespace antegrad::compiler {

capture::Request request_for(const Callable& callable, std::vector<at::Tensor> arguments,
                             const std::vector<HostValue>& host,
                             std::shared_ptr<const ModuleTree> tree,
                             std::vector<HostValue>& result_host) {
  capture::Request request;
  request.name = callable.name;
  request.answers = callable.answers;
  request.arguments = std::move(arguments);
  request.body = [body = callable.body, &host,
                  &result_host](const std::vector<at::Tensor>& tensors) {
    auto leaves = body.run(body.callable, Leaves{tensors, host});
    result_host = std::move(leaves.host);
    return std::move(leaves.tensors);
  };
  for (const auto& slot : tree->slots()) request.watched.push_back(*slot.address);
  request.source_of = [tree](const at::Tensor& tensor) {
    const auto* slot = tree->find(tensor);
    return slot == nullptr ? Source{} : slot->source;
  };
  request.holder_of =
      [tree](const c10::StorageImpl* storage) -> std::optional<std::pair<at::Tensor, Source>> {
    const auto* slot = tree->find(storage);
    if (slot == nullptr) return std::nullopt;
    return std::pair(*slot->address, slot->source);
  };
  return request;
}

Recapture make_recapture(Callable callable, const Leaves& arguments,
                         const std::shared_ptr<const ModuleTree>& tree) {
  // A parameter that is an argument as well must be recognised as the parameter.
  auto doubles = capture::doubles_of(arguments.tensors, [&](const at::Tensor& tensor) {
    return tensor.has_storage() && tree->find(tensor.storage().unsafeGetStorageImpl()) != nullptr;
  });
  return [callable = std::move(callable), doubles = std::move(doubles), host = arguments.host,
          autocast = torch_compat::Autocast::now()](const ops::BackwardForm& form) {
    // Backward passes run with grad mode off, and where autocast is as backward's caller has it.
    const at::AutoGradMode grad_mode(true);
    const torch_compat::AutocastScope scope(autocast);
    std::vector<HostValue> result_host;
    auto request = request_for(callable, doubles, host,
                               std::make_shared<const ModuleTree>(callable.module), result_host);
    request.backward = form;
    return capture::capture(request);
  };
}

}  // namespace antegrad::compiler
