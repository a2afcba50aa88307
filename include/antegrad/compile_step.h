#pragma once

/// \file
/// ag::compile_step: forward, backward and the update of an optimizer as one program
/// (docs/whole-step.md).

#include <antegrad/compile.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

namespace torch::optim {
class Optimizer;
}

namespace antegrad {

/// What becomes of gradients before an update.
struct StepOptions {
  /// Each element is limited to [-clip_value, clip_value], as
  /// torch::nn::utils::clip_grad_value_() does.
  std::optional<double> clip_value = std::nullopt;
  /// Then all gradients are scaled so that their norm is at most this, as
  /// torch::nn::utils::clip_grad_norm_() does. They are those of the optimizer's parameters, in the
  /// order of its groups.
  std::optional<double> clip_norm = std::nullopt;
  /// p of the norm; 0 counts gradients, infinity is the greatest element.
  double clip_norm_type = 2;
  /// Calls of an update: the gradients of so many calls are added up. Divide the loss by it where
  /// you want their mean.
  int64_t accumulate = 1;
};

namespace detail {

/// Throws InputError for a loss of which there is no gradient.
void check_loss(const at::Tensor& loss);

/// The part of CompiledStep that is the same for every callable. Copies share state.
class StepFunction {
 public:
  /// Throws OptionError for an optimizer that is not supported, and for options that mean nothing.
  StepFunction(std::shared_ptr<void> callable, std::shared_ptr<const torch::nn::Module> module,
               torch::optim::Optimizer& optimizer, Options options, StepOptions step);

  at::Tensor call(Leaves arguments, const BodyRef& body);
  Report report() const;
  void save_graph(const std::string& file) const;
  void zero_grad();
  void reset();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace detail

/// A compiled training step. Call it like the loss function that it was made of. One call at a
/// time.
template <class Fn>
class CompiledStep {
 public:
  CompiledStep(std::shared_ptr<const torch::nn::Module> module, torch::optim::Optimizer& optimizer,
               Fn fn, Options options, StepOptions step)
      : fn_(std::make_shared<Fn>(std::move(fn))),
        function_(fn_, std::move(module), optimizer, std::move(options), step) {}

  /// Computes the loss and its gradients, and updates parameters and the optimizer's state, as
  /// `loss.backward(); optimizer.step();` would; returns the loss, without a history. With
  /// StepOptions::accumulate, the last of so many calls updates. `.grad` is neither read nor
  /// written. Options of the optimizer, such as the learning rate, may change between calls. Throws
  /// what Compiled throws, and InputError where the loss is not one number, or the optimizer has
  /// parameters for which there is no program (docs/whole-step.md).
  template <class... Args>
  requires TakesByValue<Fn, Args...> at::Tensor operator()(const Args&... args) {
    static_assert(
        std::is_same_v<std::decay_t<std::invoke_result_t<Fn&, const Args&...>>, at::Tensor>,
        "antegrad: a step is compiled from a function that returns the loss, a tensor");
    Leaves leaves;
    (tree<Args>::flatten(args, leaves), ...);
    return function_.call(std::move(leaves), body<Args...>());
  }

  /// A snapshot, as Compiled::report().
  Report report() const { return function_.report(); }
  /// As Compiled::save_graph().
  void save_graph(const std::string& file) const { function_.save_graph(file); }
  /// Forgets gradients that were added up: the next call is the first one of an update.
  void zero_grad() { function_.zero_grad(); }
  /// Drops all programs. The next call captures again. Gradients that were added up stay.
  void reset() { function_.reset(); }

 private:
  template <class... Args>
  detail::BodyRef body() {
    return {fn_.get(), [](void* callable, const Leaves& arguments) {
              LeafReader reader(arguments);
              std::tuple<Args...> args{tree<Args>::unflatten(reader)...};
              Leaves leaves;
              leaves.tensors.push_back(std::apply(*static_cast<Fn*>(callable), std::move(args)));
              detail::check_loss(leaves.tensors[0]);
              return leaves;
            }};
  }

  std::shared_ptr<Fn> fn_;
  detail::StepFunction function_;
};

/// default_options(), but that Partitioner::priced takes the place of `as_written`: what costs less
/// to compute again than to keep is not saved, so the peak is lower than that of the loop that one
/// would write.
Options default_step_options();

/// Compiles a training step of `model`: `loss_fn` computes the loss, a tensor of one element, from
/// the arguments of the step; `optimizer` is a torch::optim::SGD, Adam or AdamW of parameters of
/// `model`, and must live as long as the step. Its state stays its own: it is read and updated in
/// place, so it is saved and loaded as usual.
template <ModulePointer Model, class Fn>
CompiledStep<std::decay_t<Fn>> compile_step(const Model& model, torch::optim::Optimizer& optimizer,
                                            Fn&& loss_fn, Options options = default_step_options(),
                                            StepOptions step = {}) {
  return {detail::module_pointer(model), optimizer, std::forward<Fn>(loss_fn), std::move(options),
          step};
}

}  // namespace antegrad
