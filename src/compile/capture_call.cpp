#include "compile/capture_call.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>

#include <optional>
#include <utility>

#include "capture/doubles.h"
#include "compile/tensor_guard.h"
#include "torch_compat/autocast.h"

namespace antegrad::compiler {

CapturedCall capture_call(const Callable& callable, const Leaves& arguments,
                          const capture::Variation& variation,
                          const std::vector<at::Tensor>& held) {
  CapturedCall call;
  call.modules = std::make_shared<const ModuleTree>(callable.module);
  capture::Request request;
  request.name = callable.name;
  request.arguments = arguments.tensors;
  request.variation = variation;
  request.body = [&](const std::vector<at::Tensor>& tensors) {
    auto leaves = callable.body.run(callable.body.callable, Leaves{tensors, arguments.host});
    call.result_host = std::move(leaves.host);
    return std::move(leaves.tensors);
  };
  request.source_of = [&](const at::Tensor& tensor) {
    const auto* slot = call.modules->find(tensor);
    return slot == nullptr ? Source{} : slot->source;
  };
  request.holder_of = [&](const c10::StorageImpl* storage) {
    const auto* slot = call.modules->find(storage);
    return slot == nullptr ? std::nullopt : std::optional(std::pair(*slot->address, slot->source));
  };
  for (const auto& slot : call.modules->slots()) request.watched.push_back(*slot.address);
  request.watched.insert(request.watched.end(), held.begin(), held.end());
  call.captured = capture::capture(request);
  return call;
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

// The default dtype of a call, which its backward pass may no longer see. Set where it differs only: it is the
// whole process's.
class DefaultDtypeScope {
 public:
  explicit DefaultDtypeScope(caffe2::TypeMeta dtype) : before_(c10::get_default_dtype()) {
    if (dtype != before_) c10::set_default_dtype(dtype);
  }
  ~DefaultDtypeScope() {
    if (c10::get_default_dtype() != before_) c10::set_default_dtype(before_);
  }
  DefaultDtypeScope(const DefaultDtypeScope&) = delete;
  DefaultDtypeScope& operator=(const DefaultDtypeScope&) = delete;

 private:
  caffe2::TypeMeta before_;
};

}  // namespace

Recapture make_recapture(const Callable& callable, const Leaves& arguments,
                         const ModuleTree& modules, std::vector<bool> answers) {
  // A parameter that is an argument as well must be recognised as the parameter.
  auto doubles = capture::doubles_of(arguments.tensors, [&](const at::Tensor& tensor) {
    return tensor.has_storage() && modules.find(tensor.storage().unsafeGetStorageImpl()) != nullptr;
  });
  return [callable, doubles = std::move(doubles), originals = Originals(arguments.tensors),
          host = arguments.host, answers = std::move(answers),
          autocast = torch_compat::Autocast::now(),
          dtype = c10::get_default_dtype()](const ops::BackwardForm& form) {
    const DefaultDtypeScope default_dtype(dtype);
    // Backward passes run with grad mode off, and where autocast is as backward's caller has it.
    const at::AutoGradMode grad_mode(true);
    const torch_compat::AutocastScope scope(autocast);
    // The callable may hold an argument as well: better the arguments themselves, if they still are as
    // they were.
    const auto present = originals.unchanged();
    return capture_call(callable, Leaves{present ? *present : doubles, host}, {form, answers})
        .captured;
  };
}

}  // namespace antegrad::compiler
