#include "compile/recapture.h"

#include <ATen/core/grad_mode.h>

#include "capture/doubles.h"
#include "compile/tensor_guard.h"
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

namespace {

// Arguments, held weakly.
class Originals {
 public:
  explicit Originals(const std::vector<at::Tensor>& tensors) {
    for (const auto& tensor : tensors) {
      guards_.emplace_back(tensor);
      held_.emplace_back(tensor.getIntrusivePtr());
    }
  }
  // The arguments, when all are alive and look as before.
  std::optional<std::vector<at::Tensor>> unchanged() const {
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < held_.size(); ++i) {
      auto impl = held_[i].lock();
      tensors.push_back(impl ? at::Tensor(std::move(impl)) : at::Tensor());
      if (!guards_[i].matches(tensors.back())) return std::nullopt;
    }
    return tensors;
  }

 private:
  std::vector<TensorGuard> guards_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>> held_;
};

}  // namespace

Recapture make_recapture(Callable callable, const Leaves& arguments,
                         const std::shared_ptr<const ModuleTree>& tree) {
  // A parameter that is an argument as well must be recognised as the parameter.
  auto doubles = capture::doubles_of(arguments.tensors, [&](const at::Tensor& tensor) {
    return tensor.has_storage() && tree->find(tensor.storage().unsafeGetStorageImpl()) != nullptr;
  });
  return [callable = std::move(callable), doubles = std::move(doubles),
          originals = Originals(arguments.tensors), host = arguments.host,
          autocast = torch_compat::Autocast::now()](const ops::BackwardForm& form) {
    // Backward passes run with grad mode off, and where autocast is as backward's caller has it.
    const at::AutoGradMode grad_mode(true);
    const torch_compat::AutocastScope scope(autocast);
    std::vector<HostValue> result_host;
    // The callable may hold an argument as well: better the arguments themselves, if they still are as
    // they were.
    const auto present = originals.unchanged();
    auto request = request_for(callable, present ? *present : doubles, host,
                               std::make_shared<const ModuleTree>(callable.module), result_host);
    request.backward = form;
    return capture::capture(request);
  };
}

}  // namespace antegrad::compiler
