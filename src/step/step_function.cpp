#include <ATen/core/grad_mode.h>
#include <antegrad/compile_step.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/optimizer.h>

#include <optional>
#include <unordered_map>

#include "capture/numbers.h"
#include "step/update_rule.h"

namespace antegrad::detail {

using step::Tensors;
using step::UpdateRule;

namespace {

constexpr const char* kRemedy = "compile the loss alone (antegrad::compile) and call step()";

const UpdateRule& rule_of(const torch::optim::Optimizer& optimizer) {
  const auto* rule = step::rule_for(optimizer);
  if (rule != nullptr) return *rule;
  throw OptionError(ErrorText{
      "an optimizer of which the step can be compiled: torch::optim::" + step::names_of_rules(),
      "another one", kRemedy});
}

// A check would run the step twice.
Options checked(Options options) {
  if (options.check_against_eager == 0) return options;
  throw OptionError(ErrorText{"check_against_eager=0 for a whole step",
                              fmt::format("{}", options.check_against_eager),
                              "check the loss, compiled alone (antegrad::compile)"});
}

void check_parameter(const at::Tensor& parameter) {
  const auto type = parameter.scalar_type();
  if (type == at::kFloat || type == at::kDouble) return;
  throw InputError(ErrorText{"parameters of float or double",
                             fmt::format("one of {}", c10::toString(type)), kRemedy});
}

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

}  // namespace

struct StepFunction::State {
  State(std::shared_ptr<void> callable, std::shared_ptr<const torch::nn::Module> module,
        torch::optim::Optimizer& optimizer, Options options)
      : optimizer(optimizer),
        rule(rule_of(optimizer)),
        function(std::move(callable), std::move(module), checked(std::move(options)),
                 [this](const auto& gradients, const auto& arguments) {
                   return updated(gradients, arguments);
                 }) {}

  /// With grad, as in the loop of a training.
  at::Tensor call(Leaves arguments, const BodyRef& body) {
    layout = layout_now();
    std::vector<uint32_t> versions;
    each_parameter([&](const auto& p) { versions.push_back(version_of(p.tensor)); });
    auto leaves = with_optimizer(std::move(arguments));
    const at::AutoGradMode with_grad(true);
    auto results = function.call(leaves, body, /*run=*/true);
    if (!results) return eager(leaves, body);
    size_t next = 0;
    each_parameter([&](const auto& p) {
      if (version_of(p.tensor) == versions[next++] || p.state.empty()) return;
      const auto* key = p.tensor.unsafeGetTensorImpl();
      rule.note_step(optimizer.state()[const_cast<c10::TensorImpl*>(key)], p.state);
      unused.erase(key);
    });
    return std::move(results->tensors.at(0));
  }

  torch::optim::Optimizer& optimizer;
  const UpdateRule& rule;
  CompiledFunction function;

 private:
  struct Parameter {
    at::Tensor tensor;
    std::vector<HostValue> form;
    std::vector<double> numbers;
    Tensors state;
  };

  // A group of the optimizer, with the numbers that its parameters have in common.
  struct Group {
    std::vector<Parameter> parameters;
    std::vector<double> numbers;
  };

  // What the optimizer adds to the arguments of a call, in order: the numbers of each group, and
  // numbers and state of each of its parameters.
  struct Layout {
    std::vector<Group> groups;
    size_t tensors() const {
      size_t count = 0;
      for (const auto& group : groups) {
        count += group.numbers.size();
        for (const auto& parameter : group.parameters) {
          count += parameter.numbers.size() + parameter.state.size();
        }
      }
      return count;
    }
  };

  template <class Visit>
  void each_parameter(Visit visit) const {
    for (const auto& group : layout.groups) {
      for (const auto& parameter : group.parameters) visit(parameter);
    }
  }

  const torch::optim::OptimizerParamState* state_of(const at::Tensor& parameter) const {
    const auto& states = optimizer.state();
    const auto found = states.find(parameter.unsafeGetTensorImpl());
    return found == states.end() ? nullptr : found->second.get();
  }

  Layout layout_now() {
    Layout now;
    for (const auto& given : optimizer.param_groups()) {
      const auto& options = given.options();
      auto& group = now.groups.emplace_back();
      group.numbers = rule.numbers(options);
      for (const auto& parameter : given.params()) {
        if (!parameter.defined() || !parameter.requires_grad()) continue;
        check_parameter(parameter);
        const auto* state = state_of(parameter);
        group.parameters.push_back({parameter, rule.form(options, state),
                                    rule.numbers_of_step(options, rule.steps(state)),
                                    tensors_of(options, state, parameter)});
      }
    }
    return now;
  }

  // Before its first step a parameter has no state. New tensors are kept until it has one.
  Tensors tensors_of(const torch::optim::OptimizerOptions& options,
                     const torch::optim::OptimizerParamState* state, const at::Tensor& parameter) {
    if (state != nullptr) return rule.tensors(options, state, parameter);
    auto& tensors = unused[parameter.unsafeGetTensorImpl()];
    const at::NoGradGuard no_grad;
    if (tensors.empty()) tensors = rule.tensors(options, nullptr, parameter);
    return tensors;
  }

  Leaves with_optimizer(Leaves leaves) const {
    const auto add_numbers = [&](const std::vector<double>& numbers) {
      for (const auto number : numbers) leaves.tensors.push_back(ops::wrapped_number(number));
    };
    for (const auto& group : layout.groups) {
      add_numbers(group.numbers);
      for (const auto& [parameter, form, numbers, state] : group.parameters) {
        add_numbers(numbers);
        leaves.tensors.insert(leaves.tensors.end(), state.begin(), state.end());
        leaves.host.insert(leaves.host.end(), form.begin(), form.end());
      }
      leaves.host.emplace_back(static_cast<uint64_t>(group.parameters.size()));
    }
    return leaves;
  }

  // During a capture: see StepUpdate.
  std::vector<std::pair<at::Tensor, at::Tensor>> updated(
      const std::vector<std::pair<at::Tensor, at::Tensor>>& gradients, const Tensors& arguments) {
    std::unordered_map<const c10::TensorImpl*, at::Tensor> gradient_of;
    for (const auto& [input, gradient] : gradients) {
      gradient_of.emplace(input.unsafeGetTensorImpl(), gradient);
    }
    std::vector<std::pair<at::Tensor, at::Tensor>> values;
    auto next = arguments.end() - static_cast<std::ptrdiff_t>(layout.tensors());
    const auto read = [&](std::vector<at::Scalar>& into, size_t count) {
      for (; count > 0; --count) into.push_back(capture::number_in_leaf(*next++));
    };
    for (const auto& group : layout.groups) {
      std::vector<at::Scalar> of_group;
      read(of_group, group.numbers.size());
      for (const auto& parameter : group.parameters) {
        auto numbers = of_group;
        read(numbers, parameter.numbers.size());
        const auto& state = parameter.state;
        next += static_cast<std::ptrdiff_t>(state.size());
        const auto gradient = gradient_of.find(parameter.tensor.unsafeGetTensorImpl());
        if (gradient == gradient_of.end()) continue;
        const auto made =
            rule.update(parameter.form, parameter.tensor, gradient->second, state, numbers);
        values.emplace_back(parameter.tensor, made.at(0));
        for (size_t i = 0; i < state.size(); ++i) values.emplace_back(state[i], made.at(i + 1));
      }
    }
    return values;
  }

  at::Tensor eager(const Leaves& leaves, const BodyRef& body) {
    const auto loss = body.run(body.callable, leaves).tensors.at(0);
    Tensors parameters, before;
    each_parameter([&](const auto& p) { parameters.push_back(p.tensor); });
    const auto gradients = torch::autograd::grad({loss}, parameters, {}, std::nullopt, false,
                                                 /*allow_unused=*/true);
    const auto exchange = [&](const Tensors& given) {
      for (size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = given[i];
    };
    for (const auto& parameter : parameters) before.push_back(parameter.grad());
    exchange(gradients);
    optimizer.step();
    exchange(before);
    return loss.detach();
  }

  Layout layout;  // of the call that runs, or the last one
  std::unordered_map<const c10::TensorImpl*, Tensors> unused;  // states of parameters without steps
};

StepFunction::StepFunction(std::shared_ptr<void> callable,
                           std::shared_ptr<const torch::nn::Module> module,
                           torch::optim::Optimizer& optimizer, Options options)
    : state_(std::make_shared<State>(std::move(callable), std::move(module), optimizer,
                                     std::move(options))) {}

at::Tensor StepFunction::call(Leaves arguments, const BodyRef& body) {
  return state_->call(std::move(arguments), body);
}

Report StepFunction::report() const { return state_->function.report(); }
void StepFunction::save_graph(const std::string& file) const { state_->function.save_graph(file); }
void StepFunction::reset() { state_->function.reset(); }

void check_loss(const at::Tensor& loss) {
  if (loss.defined() && loss.numel() == 1 && loss.requires_grad()) return;
  const auto found = !loss.defined()     ? std::string("an undefined tensor")
                     : loss.numel() != 1 ? fmt::format("{} elements", loss.numel())
                                         : std::string("a tensor that needs no gradient");
  throw InputError(ErrorText{"a loss of one element that depends on parameters", found,
                             "return the mean or the sum of the losses"});
}

}  // namespace antegrad::detail
