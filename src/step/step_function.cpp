#include <ATen/core/grad_mode.h>
#include <antegrad/compile_step.h>
#include <antegrad/config.h>
#include <antegrad/error.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "step/torch_optimizer.h"
#include "step/whole_step.h"

namespace antegrad {

Options default_step_options() {
  auto options = default_options();
  if (options.partition == Partitioner::as_written) options.partition = Partitioner::priced;
  return options;
}

namespace detail {

struct StepFunction::State {
  State(std::shared_ptr<void> callable, std::shared_ptr<const torch::nn::Module> module,
        torch::optim::Optimizer& optimizer, Options options, StepOptions step_options)
      : step(step::torch_optimizer(optimizer), step_options),
        function(std::move(callable), std::move(module), step::checked(std::move(options)),
                 step.update()) {}

  step::WholeStep step;
  CompiledFunction function;
};

StepFunction::StepFunction(std::shared_ptr<void> callable,
                           std::shared_ptr<const torch::nn::Module> module,
                           torch::optim::Optimizer& optimizer, Options options, StepOptions step)
    : state_(std::make_shared<State>(std::move(callable), std::move(module), optimizer,
                                     std::move(options), step)) {}

// With grad, as in the loop of a training.
at::Tensor StepFunction::call(Leaves arguments, const BodyRef& body) {
  const at::AutoGradMode with_grad(true);
  auto& [step, function] = *state_;
  step.begin();
  step.add_to(arguments);
  auto results = function.call(arguments, body, /*run=*/true);
  if (!results) return step.end_eagerly(body.run(body.callable, arguments).tensors.at(0));
  step.end();
  return std::move(results->tensors.at(0));
}

Report StepFunction::report() const { return state_->function.report(); }
void StepFunction::save_graph(const std::string& file) const { state_->function.save_graph(file); }
void StepFunction::zero_grad() { state_->step.zero_grad(); }
void StepFunction::reset() { state_->function.reset(); }

void check_loss(const at::Tensor& loss) {
  if (loss.defined() && loss.numel() == 1 && loss.requires_grad()) return;
  const auto found = !loss.defined()     ? std::string("an undefined tensor")
                     : loss.numel() != 1 ? fmt::format("{} elements", loss.numel())
                                         : std::string("a tensor that needs no gradient");
  throw InputError(ErrorText{"a loss of one element that depends on parameters", found,
                             "return the mean or the sum of the losses"});
}

}  // namespace detail
}  // namespace antegrad
