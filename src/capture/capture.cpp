#include "capture/capture.h"

#include <antegrad/error.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "capture/results.h"
#include "capture/tracer.h"
#include "torch_compat/autograd_graph.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

void refuse_inner_inference_mode(const Tracer& tracer, const std::vector<at::Tensor>& results) {
  if (c10::InferenceMode::is_enabled()) return;
  for (const auto& result : results) {
    if (!result.defined() || !result.is_inference()) continue;
    if (tracer.root_of_wrapper(result) >= 0) continue;
    throw CaptureError("InferenceMode",
                       {"results that are made outside of inference mode",
                        "a result that is made in inference mode inside the callable",
                        "use NoGradGuard inside, or inference mode around the call"});
  }
}

// An autograd::Function applied to a real tensor bypasses the dispatcher, so that its history leads
// to the real tensor instead of a stand-in.
void find_direct_edges(Tracer& tracer, const std::vector<at::Tensor>& results, uint64_t start) {
  auto tensors = results;
  for (const auto& root : tracer.roots()) tensors.push_back(root.wrapper);
  const auto reached = torch_compat::walk(tensors);
  for (const auto* node : reached.functions) {
    if (!torch_compat::made_before(*node, start)) continue;
    throw CaptureError("autograd::Function",
                       {"functions applied to arguments, parameters and what the callable computes",
                        "one applied to a tensor that was computed outside and is held by the "
                        "callable (" +
                            node->name() + ")",
                        "pass the tensor as an argument"});
  }
  for (const auto& leaf : reached.leaves) {
    if (!leaf.key_set().has(c10::DispatchKey::Functionalize)) {
      if (torch_compat::hook_count(leaf) != 0) {
        throw CaptureError("autograd::Function",
                           {"parameters without hooks where a function is applied to them directly",
                            "a parameter with hooks", "pass it as an argument"});
      }
      tracer.lift(leaf);
      auto& root = tracer.roots()[tracer.root_of(leaf)];
      root.direct_edge = torch_compat::gradient_edge(leaf);
      continue;
    }
    if (tracer.root_of_wrapper(leaf) >= 0) continue;
    for (const auto& result : results) {
      if (!result.is_same(leaf)) continue;
      throw CaptureError("requires_grad_",
                         {"leaves that are made outside, when their gradients are wanted",
                          "a leaf made inside that is returned and that other results depend on",
                          "pass it as an argument"});
    }
  }
}

// Refuses changes that would stay with the stand-in although the real tensor outlives the call:
// gradients, hooks, and requires_grad, unless set by computation.
void refuse_lasting(const Root& root) {
  if (root.wrapper.unsafeGetTensorImpl()->grad().defined()) {
    throw CaptureError("backward", {"a callable that returns what backward() starts from",
                                    "backward() called inside the compiled callable",
                                    "call backward() on the result, or use ag::grad inside"});
  }
  if (torch_compat::hook_count(root.wrapper) != 0) {
    throw CaptureError(
        "register_hook",
        {"hooks on tensors that the callable computes",
         "a hook registered inside the callable on an argument or a tensor that it holds",
         "register it between calls, or on a tensor that is computed from this one"});
  }
  if (root.wrapper.is_leaf() && root.wrapper.requires_grad() != root.real.requires_grad()) {
    throw CaptureError("requires_grad_", {"arguments and parameters that keep requires_grad",
                                          "requires_grad_() of one inside the compiled callable",
                                          "set it between calls, or use detach() inside"});
  }
}

void refuse_retained_grad(const at::Tensor& result) {
  if (!result.defined() || !result.retains_grad()) return;
  throw CaptureError("retain_grad",
                     {"results whose gradients are asked for outside",
                      "retain_grad() inside the callable on a tensor that is returned",
                      "call retain_grad() on the result"});
}

void find_held_arguments(const Tracer& tracer, const Request& request, Captured& captured) {
  for (const auto& argument : request.arguments) {
    const auto* storage = argument.defined() ? storage_of(argument) : nullptr;
    const auto& roots = tracer.roots();
    captured.held_arguments.push_back(
        storage != nullptr && ((request.holder_of && request.holder_of(storage)) ||
                               std::any_of(roots.begin(), roots.end(), [&](const Root& root) {
                                 return (root.met_inside ||
                                         root.source.kind != Source::Kind::argument) &&
                                        storage_of(root.real) == storage;
                               })));
  }
}

void find_leaf_inputs(const Request& request, Captured& captured) {
  for (const auto& argument : request.arguments) {
    captured.leaf_inputs.push_back(-1);
    for (size_t i = 0; i < captured.primals.size(); ++i) {
      if (captured.primals[i].is_same(argument)) {
        captured.leaf_inputs.back() = static_cast<int32_t>(i);
      }
    }
  }
}

// Runs the callable, then its backward.
class ForwardCapture final : public Driver {
 public:
  ForwardCapture(const Request& request, const std::vector<bool>& fixed_numbers)
      : request_(request), fixed_numbers_(fixed_numbers) {}

  std::vector<at::Tensor> run(Tracer& tracer) override {
    tracer.data_questions.given = request_.variation.answers;
    tracer.placeholders = request_.variation.placeholders;
    start_ = torch_compat::next_sequence_number();
    numbers_ = std::make_shared<Numbers>(request_.arguments, fixed_numbers_);
    tracer.numbers = numbers_;
    auto of_body = request_.arguments.size();
    for (const auto& derivative : request_.derivatives) of_body -= derivative.arguments();
    std::vector<at::Tensor> lifted;
    for (size_t i = 0; i < of_body; ++i) {
      const auto& argument = request_.arguments[i];
      const auto leaf = static_cast<int32_t>(i);
      lifted.push_back(ops::is_number(argument) ? argument : tracer.lift_argument(argument, leaf));
    }
    auto results = request_.body(lifted);
    auto leaf = static_cast<int32_t>(of_body);
    for (const auto& derivative : request_.derivatives) {
      find_direct_edges(tracer, results, start_);
      add_gradients(tracer, derivative, leaf, results);
      leaf += static_cast<int32_t>(derivative.arguments());
    }
    return results;
  }

  void check(Tracer& tracer, const std::vector<at::Tensor>& results) override {
    refuse_inner_inference_mode(tracer, results);
    for (const auto& root : tracer.roots()) refuse_lasting(root);
    for (const auto& result : results) refuse_retained_grad(result);
    find_direct_edges(tracer, results, start_);
  }

  void finish(Tracer& tracer, std::vector<at::Tensor> results, Captured& captured) override {
    find_held_arguments(tracer, request_, captured);
    finish_joint(tracer, std::move(results), request_, captured);
    find_leaf_inputs(request_, captured);
    captured.numbers.primals = tracer.number_primals;
    captured.placeholders = tracer.placeholders;
  }

  /// After a capture or an error: the use of numbers in the last run. All are fixed if the run does
  /// not show how it uses them.
  ops::NumberUse numbers(bool failed) const {
    if (numbers_ == nullptr) return {};
    auto use = numbers_->use();
    // The engine's thread of a device releases its nodes shortly after the backward.
    for (int left = 20; left > 0 && numbers_.use_count() > 1; --left) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool kept = numbers_.use_count() > 1;
    return (failed && use.fixed == fixed_numbers_) || kept ? numbers_->use(/*all=*/true) : use;
  }

 private:
  const Request& request_;
  const std::vector<bool>& fixed_numbers_;
  std::shared_ptr<Numbers> numbers_;  // of the last run
  uint64_t start_ = 0;
};

}  // namespace

// Numbers that decide something become constants, and the callable is captured again.
Captured capture(const Request& request) {
  auto fixed = request.variation.fixed_numbers;
  fixed.resize(request.arguments.size());
  for (size_t i = 0; i < fixed.size(); ++i) {
    fixed[i] = fixed[i] && ops::is_number(request.arguments[i]);
  }
  while (true) {
    ForwardCapture driver(request, fixed);
    std::optional<Captured> captured;
    std::exception_ptr error;
    try {
      captured = Session(request, driver).capture();
    } catch (...) {
      error = std::current_exception();
    }
    const bool failed = !captured || captured->backward_error;
    auto use = driver.numbers(failed);
    use.fixed.resize(fixed.size());
    if (use.fixed == fixed) {
      if (!captured) std::rethrow_exception(error);
      captured->numbers.conditions = std::move(use.conditions);
      captured->numbers.fixed = std::move(use.fixed);
      return std::move(*captured);
    }
    fixed = std::move(use.fixed);
  }
}

std::string find_line(const Request& request, int32_t node) {
  try {
    ForwardCapture driver(request, request.variation.fixed_numbers);
    Session session(request, driver);
    session.capture();
    return session.line_of(node);
  } catch (...) {
    return "";  // the caller reports an error of its own
  }
}

}  // namespace antegrad::capture
