#include "compile/capture_call.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <map>
#include <optional>
#include <utility>

#include "capture/doubles.h"
#include "compile/tensor_guard.h"
#include "runtime/fork_gate.h"
#include "torch_compat/autocast.h"

namespace antegrad::compiler {

namespace {

// A request for a capture of the callable; what it refers to must outlive it.
struct Asked {
  Asked(const Callable& callable, const Leaves& arguments, const capture::Variation& variation,
        const std::vector<at::Tensor>& held)
      : modules(std::make_shared<const ModuleTree>(callable.module)) {
    request.name = callable.name;
    request.arguments = arguments.tensors;
    request.variation = variation;
    request.body = [&](const std::vector<at::Tensor>& tensors) {
      auto leaves = callable.body.run(callable.body.callable, Leaves{tensors, arguments.host});
      result_host = std::move(leaves.host);
      return std::move(leaves.tensors);
    };
    request.source_of = [this](const at::Tensor& tensor) {
      const auto* slot = modules->find(tensor);
      return slot == nullptr ? Source{} : slot->source;
    };
    request.holder_of = [this](const c10::StorageImpl* storage) {
      const auto* slot = modules->find(storage);
      return slot == nullptr ? std::nullopt
                             : std::optional(std::pair(*slot->address, slot->source));
    };
    for (const auto& slot : modules->slots()) request.watched.push_back(*slot.address);
    request.watched.insert(request.watched.end(), held.begin(), held.end());
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  std::shared_ptr<const ModuleTree> modules;
  std::vector<HostValue> result_host;
  capture::Request request;
};

}  // namespace

CapturedCall capture_call(const Callable& callable, const Leaves& arguments,
                          const capture::Variation& variation,
                          const std::vector<at::Tensor>& held) {
  const runtime::ForkSafeLock lock(*callable.alone);
  RECORD_FUNCTION("AntegradCapture:" + callable.name, c10::ArrayRef<const c10::IValue>{});
  Asked asked(callable, arguments, variation, held);
  CapturedCall call;
  call.captured = capture::capture(asked.request);
  call.result_host = std::move(asked.result_host);
  call.modules = std::move(asked.modules);
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

// A call that is over, as far as it is needed to capture it again.
class PastCall {
 public:
  PastCall(Callable callable, const Leaves& arguments, const ModuleTree& modules,
           std::vector<bool> answers)
      : callable_(std::move(callable)),
        originals_(arguments.tensors),
        host_(arguments.host),
        answers_(std::move(answers)),
        autocast_(torch_compat::Autocast::now()) {
    // A parameter that is an argument as well must be recognised as the parameter.
    doubles_ = capture::doubles_of(arguments.tensors, [&](const at::Tensor& tensor) {
      return tensor.has_storage() &&
             modules.find(tensor.storage().unsafeGetStorageImpl()) != nullptr;
    });
  }

  capture::Captured recapture(const ops::BackwardForm& form) const {
    const auto arguments = leaves();
    const Ambient ambient(*this);
    return capture_call(callable_, arguments, {form, answers_}).captured;
  }

  std::string line_of(int32_t node) {
    const runtime::ForkSafeLock lock(*callable_.alone);
    if (const auto known = lines_.find(node); known != lines_.end()) return known->second;
    const auto arguments = leaves();
    const Ambient ambient(*this);
    const Asked asked(callable_, arguments, {{}, answers_}, {});
    return lines_[node] = capture::find_line(asked.request, node);
  }

 private:
  // Backward passes run with grad mode off, and where autocast is as backward's caller has it.
  struct Ambient {
    explicit Ambient(const PastCall& call) : grad_mode(call.grad_mode_), autocast(call.autocast_) {}
    at::AutoGradMode grad_mode;
    torch_compat::AutocastScope autocast;
  };

  // The callable may hold an argument as well: better the arguments themselves, if they still are as
  // they were.
  Leaves leaves() const {
    const auto present = originals_.unchanged();
    return {present ? *present : doubles_, host_};
  }

  const Callable callable_;
  const Originals originals_;
  const std::vector<HostValue> host_;
  const std::vector<bool> answers_;
  const bool grad_mode_ = at::GradMode::is_enabled();
  const torch_compat::Autocast autocast_;
  std::vector<at::Tensor> doubles_;
  std::map<int32_t, std::string> lines_;  // by node; guarded by callable_.alone
};

}  // namespace

LaterCaptures later_captures(const Callable& callable, const Leaves& arguments,
                             const ModuleTree& modules, std::vector<bool> answers) {
  const auto call = std::make_shared<PastCall>(callable, arguments, modules, std::move(answers));
  return {[call](const ops::BackwardForm& form) { return call->recapture(form); },
          [call](int32_t node) { return call->line_of(node); }};
}

}  // namespace antegrad::compiler
