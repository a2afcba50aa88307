#include "compile/capture_call.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "capture/doubles.h"
#include "guards/tensor_guard.h"
#include "runtime/fork_gate.h"
#include "runtime/generator_states.h"
#include "runtime/program.h"
#include "torch_compat/autocast.h"
#include "torch_compat/scope.h"

namespace antegrad::compiler {

namespace {

// Computes the data of the call that a capture asks for.
std::vector<at::Tensor> evaluate(const Graph& graph, const ops::AttrTables& tables,
                                 std::vector<at::Tensor> inputs) {
  const runtime::Program program(graph, tables);
  const runtime::GeneratorStates before(runtime::generators_of(graph, tables));
  try {
    auto outputs = program.run(std::move(inputs));
    before.restore();
    return outputs;
  } catch (...) {
    before.restore();
    throw;
  }
}

using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>;

// A request to capture the callable. Refers to values that must outlive it.
struct Asked : torch_compat::Scope {
  Asked(const Callable& callable, const Leaves& arguments, const capture::Variation& variation,
        const std::vector<at::Tensor>& held)
      : modules(std::make_shared<const guards::ModuleTree>(callable.module)) {
    request.name = callable.name;
    request.arguments = arguments.tensors;
    request.variation = variation;
    request.bytes_at_call = variation.bytes_at_call;
    if (variation.has_data) request.evaluate = evaluate;
    request.cross_check_shapes = callable.cross_check_shapes;
    request.update = callable.update;
    request.body = [&](const std::vector<at::Tensor>& tensors) {
      const runtime::ForkSafeLock lock(*callable.alone);
      auto leaves = callable.body.run(callable.body.callable, Leaves{tensors, arguments.host});
      result_host = std::move(leaves.host);
      return std::move(leaves.tensors);
    };
    request.collect = callable.body.collect;
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

  std::shared_ptr<const guards::ModuleTree> modules;
  std::vector<HostValue> result_host;
  capture::Request request;
};

// The arguments of a past call. They are represented by doubles, since the caller may use or change
// its own tensors by now, possibly on another thread. Arguments that the callable holds as well
// must be recognised there, so weak references to these are kept.
class PastArguments {
 public:
  PastArguments(const std::vector<at::Tensor>& tensors, const std::vector<bool>& held)
      : doubles_(capture::doubles_of(tensors)) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (ops::is_number(tensors[i])) doubles_[i] = tensors[i];  // nobody writes it
      if (held[i])
        held_.push_back(
            Held{i, guards::TensorGuard(tensors[i]), Weak(tensors[i].getIntrusivePtr())});
    }
  }
  // The held arguments themselves if all are alive and have the same metadata.
  std::vector<at::Tensor> tensors() const {
    auto tensors = doubles_;
    for (const auto& held : held_) {
      auto impl = held.tensor.lock();
      tensors[held.leaf] = impl ? at::Tensor(std::move(impl)) : at::Tensor();
      if (!held.guard.matches(tensors[held.leaf])) return doubles_;
    }
    return tensors;
  }

 private:
  struct Held {
    size_t leaf;
    guards::TensorGuard guard;
    Weak tensor;
  };
  std::vector<at::Tensor> doubles_;
  std::vector<Held> held_;
};

// Sets the default dtype of a call, which its backward pass may not see any more. Only set if it
// differs, since it is global to the process.
class DefaultDtypeScope : torch_compat::Scope {
 public:
  explicit DefaultDtypeScope(caffe2::TypeMeta dtype) : before_(c10::get_default_dtype()) {
    if (dtype != before_) c10::set_default_dtype(dtype);
  }
  ~DefaultDtypeScope() {
    if (c10::get_default_dtype() != before_) c10::set_default_dtype(before_);
  }

 private:
  caffe2::TypeMeta before_;
};

// A past call, with everything needed to capture it again.
class PastCall {
 public:
  PastCall(Callable callable, const Leaves& arguments, const capture::Captured& captured)
      : callable_(std::move(callable)),
        arguments_(arguments.tensors, captured.held_arguments),
        host_(arguments.host),
        primals_(weak(captured.primals)),
        storages_(sizes_of(captured.primals)),
        sources_(sources_of(captured)),
        leaf_inputs_(captured.leaf_inputs),
        answers_(ops::answers_of(captured.questions)),
        numbers_(captured.numbers),
        placeholders_(captured.placeholders),
        autocast_(torch_compat::Autocast::now()) {}

  capture::Captured recapture(const ops::BackwardForm& form) const {
    const auto arguments = leaves();
    const Ambient ambient(*this);
    auto captured = capture_call(callable_, arguments, variation(form)).captured;
    require_same_numbers(captured);
    return captured;
  }

  DerivedCall derive(const std::vector<DerivativeStep>& steps,
                     const ops::BackwardForm& form) const {
    const auto arguments = leaves();
    const Ambient ambient(*this);
    const auto same = variation(form);
    Asked asked(callable_, arguments, same, {});
    auto& request = asked.request;
    for (const auto& step : steps) {
      using Kind = DerivedInput::Kind;
      capture::Derivative derivative{step.tangents, {}, step.autocast, {}};
      if (&step == &steps.back()) derivative.probes = step.probes;
      for (const auto& [kind, of_step, index] : step.wanted) {
        auto& wanted = derivative.wanted.emplace_back();
        if (kind == Kind::primal) wanted.input = primal(index, arguments);
        if (kind == Kind::tangent) wanted.input = steps[of_step].tangents[index];
        if (kind == Kind::probe) wanted.output = index;
      }
      for (const auto* more : {&derivative.tangents, &derivative.probes}) {
        request.arguments.insert(request.arguments.end(), more->begin(), more->end());
      }
      request.derivatives.push_back(std::move(derivative));
    }
    DerivedCall derived{capture::capture(request), {}};
    derived.captured.numbers.fixed.resize(numbers_.fixed.size());
    require_same_numbers(derived.captured);
    for (size_t i = 0; i < derived.captured.primals.size(); ++i) {
      derived.inputs.push_back(origin_of(derived.captured, i, arguments, steps));
    }
    return derived;
  }

  std::string line_of(int32_t node) {
    {
      const runtime::ForkSafeLock lock(mutex_);
      if (const auto known = lines_.find(node); known != lines_.end()) return known->second;
    }
    const auto arguments = leaves();
    const Ambient ambient(*this);
    const auto same = variation({});
    const Asked asked(callable_, arguments, same, {});
    auto line = capture::find_line(asked.request, node);
    const runtime::ForkSafeLock lock(mutex_);
    return lines_[node] = std::move(line);
  }

 private:
  static std::vector<Weak> weak(const std::vector<at::Tensor>& tensors) {
    std::vector<Weak> weak;
    for (const auto& tensor : tensors) weak.emplace_back(tensor.getIntrusivePtr());
    return weak;
  }

  struct SizeOfStorage {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // alive, so that its address stays its own
    int64_t bytes;
  };

  // The call is to come: it may resize them.
  static std::vector<SizeOfStorage> sizes_of(const std::vector<at::Tensor>& primals) {
    std::vector<SizeOfStorage> sizes;
    for (const auto& tensor : primals) {
      if (!tensor.defined() || !tensor.has_storage()) continue;
      const auto& storage = tensor.storage();
      sizes.push_back({storage.getWeakStorageImpl(), static_cast<int64_t>(storage.nbytes())});
    }
    return sizes;
  }

  std::optional<int64_t> bytes_at_call(const c10::StorageImpl* storage) const {
    const auto known = std::ranges::find_if(storages_, [&](const SizeOfStorage& size) {
      return size.storage._unsafe_get_target() == storage;
    });
    return known == storages_.end() ? std::nullopt : std::optional(known->bytes);
  }

  static std::vector<Source> sources_of(const capture::Captured& captured) {
    std::vector<Source> sources;
    for (size_t i = 0; i < captured.primals.size(); ++i) {
      sources.push_back(captured.joint.inputs[i].source);
    }
    return sources;
  }

  void require_same_numbers(const capture::Captured& captured) const {
    if (captured.numbers.fixed == numbers_.fixed &&
        captured.numbers.conditions.size() <= numbers_.conditions.size()) {
      return;
    }
    throw CaptureError("", {"a backward that asks as much about numbers as the first one",
                            "one that asks more", "pass the number as a constant"});
  }

  // What stands for a primal of the call now.
  at::Tensor primal(int32_t index, const Leaves& arguments) const {
    const auto leaf = std::ranges::find(leaf_inputs_, index);
    if (leaf != leaf_inputs_.end()) return arguments.tensors[leaf - leaf_inputs_.begin()];
    if (auto impl = primals_[index].lock()) return at::Tensor(std::move(impl));
    throw CaptureError("", {"parameters of the call that still exist", "one that does not",
                            "keep the module until the backward has run"});
  }

  DerivedInput origin_of(const capture::Captured& captured, size_t index, const Leaves& arguments,
                         const std::vector<DerivativeStep>& steps) const {
    using Kind = DerivedInput::Kind;
    const auto& tensor = captured.primals[index];
    for (const auto& number : captured.numbers.primals) {
      if (std::cmp_not_equal(number.index, index)) continue;
      const auto known = std::ranges::find(numbers_.primals, number.number->text(),
                                           [](const auto& it) { return it.number->text(); });
      if (known == numbers_.primals.end()) refuse_input("a number");
      return {Kind::primal, -1, known->index};
    }
    for (size_t step = 0; step < steps.size(); ++step) {
      const auto& tangents = steps[step].tangents;
      for (size_t i = 0; i < tangents.size(); ++i) {
        if (!tangents[i].defined() || !tangents[i].is_same(tensor)) continue;
        return {Kind::tangent, static_cast<int32_t>(step), static_cast<int32_t>(i)};
      }
    }
    const auto& probes = steps.back().probes;
    for (size_t i = 0; i < probes.size(); ++i) {
      if (probes[i].is_same(tensor))
        return {Kind::probe, static_cast<int32_t>(steps.size()) - 1, static_cast<int32_t>(i)};
    }
    for (size_t leaf = 0; leaf < leaf_inputs_.size(); ++leaf) {
      if (leaf_inputs_[leaf] >= 0 && arguments.tensors[leaf].is_same(tensor)) {
        return {Kind::primal, -1, leaf_inputs_[leaf]};
      }
    }
    for (size_t i = 0; i < primals_.size(); ++i) {
      if (primals_[i]._unsafe_get_target() == tensor.unsafeGetTensorImpl()) {
        return {Kind::primal, -1, static_cast<int32_t>(i)};
      }
    }
    // Memory that several tensors share may be another tensor each time.
    const auto& source = captured.joint.inputs[index].source;
    if (source.kind == Source::Kind::constant) return {};
    const auto same = std::ranges::find(sources_, source);
    if (source.kind != Source::Kind::anonymous && same != sources_.end()) {
      return {Kind::primal, -1, static_cast<int32_t>(same - sources_.begin())};
    }
    refuse_input("a tensor");
  }

  [[noreturn]] static void refuse_input(const char* what) {
    throw CaptureError("", {"a callable that reads the same tensors and numbers each time",
                            std::string(what) + " that the call did not read",
                            "pass what changes as an argument"});
  }

  // Backward passes run with grad mode off and under the autocast state of their caller.
  struct Ambient {
    explicit Ambient(const PastCall& call)
        : grad_mode(call.grad_mode_), autocast(call.autocast_), dtype(call.dtype_) {}
    at::AutoGradMode grad_mode;
    torch_compat::AutocastScope autocast;
    DefaultDtypeScope dtype;
  };

  capture::Variation variation(const ops::BackwardForm& form) const {
    return {form,
            answers_,
            /*has_data=*/false,
            numbers_.fixed,
            placeholders_,
            [this](const c10::StorageImpl* storage) { return bytes_at_call(storage); }};
  }
  Leaves leaves() const { return {arguments_.tensors(), host_}; }

  const Callable callable_;
  const PastArguments arguments_;
  const std::vector<HostValue> host_;
  const std::vector<Weak> primals_;
  const std::vector<SizeOfStorage> storages_;
  const std::vector<Source> sources_;       // by primal
  const std::vector<int32_t> leaf_inputs_;  // of the call: by leaf, its primal
  const std::vector<ops::Answer> answers_;
  const ops::NumberUse numbers_;
  const std::vector<capture::PlaceholderUse> placeholders_;
  const bool grad_mode_ = at::GradMode::is_enabled();
  const torch_compat::Autocast autocast_;
  const caffe2::TypeMeta dtype_ = c10::get_default_dtype();
  std::mutex mutex_;                      // guards the members below
  std::map<int32_t, std::string> lines_;  // by node
};

}  // namespace

guards::CapturedCall capture_call(const Callable& callable, const Leaves& arguments,
                                  const capture::Variation& variation,
                                  const std::vector<at::Tensor>& held) {
  RECORD_FUNCTION("AntegradCapture:" + callable.name, c10::ArrayRef<const c10::IValue>{});
  Asked asked(callable, arguments, variation, held);
  guards::CapturedCall call;
  call.captured = capture::capture(asked.request);
  call.result_host = std::move(asked.result_host);
  call.modules = std::move(asked.modules);
  return call;
}

LaterCaptures later_captures(const Callable& callable, const Leaves& arguments,
                             const capture::Captured& captured) {
  const auto call = std::make_shared<PastCall>(callable, arguments, captured);
  return {[call](const ops::BackwardForm& form) { return call->recapture(form); },
          [call](int32_t node) { return call->line_of(node); },
          [call](const std::vector<DerivativeStep>& steps, const ops::BackwardForm& form) {
            return call->derive(steps, form);
          }};
}

}  // namespace antegrad::compiler
