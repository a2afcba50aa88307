#include "step/whole_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>

#include "capture/numbers.h"
#include "capture/placeholder.h"

namespace antegrad::step {
namespace {

// What a call writes for a parameter: its version tells whether the call did.
uint32_t version_of(const Layout& layout, const Parameter& parameter) {
  const auto& target = layout.updates ? parameter.tensor : parameter.sum;
  return target.unsafeGetTensorImpl()->version_counter().current_version();
}

// The gradients of a parameter, of which this call has one.
at::Tensor with_sum(const Parameter& parameter, const at::Tensor& gradient) {
  return parameter.has_sum ? parameter.sum.add(gradient) : gradient;
}

// Calls visit(parameter, item) for each parameter and its entry of a list.
template <class List, class Visit>
void each_with(const Layout& layout, List& list, Visit visit) {
  auto next = list.begin();
  layout.each_parameter([&](const Parameter& parameter) { visit(parameter, *next++); });
}

}  // namespace

WholeStep::WholeStep(std::shared_ptr<Optimizer> optimizer, StepOptions options)
    : optimizer_(std::move(optimizer)), options_(options) {
  check(options_);
}

Layout WholeStep::layout_now() {
  auto now = optimizer_->layout();
  if (options_.accumulate == 1) return now;
  now.updates = calls_since_update_ + 1 == options_.accumulate;
  const at::NoGradGuard no_grad;
  for (auto& group : now.groups) {
    for (auto& parameter : group.parameters) {
      auto& sum = sums_[parameter.tensor.unsafeGetTensorImpl()];
      if (!sum.tensor.defined()) sum.tensor = at::empty_like(parameter.tensor);
      parameter.sum = sum.tensor;
      parameter.has_sum = !sum.is_empty;
    }
  }
  return now;
}

void WholeStep::begin() {
  layout_ = layout_now();
  versions_.clear();
  layout_.each_parameter(
      [&](const Parameter& parameter) { versions_.push_back(version_of(layout_, parameter)); });
}

void WholeStep::add_to(Leaves& arguments) {
  arguments_ = arguments.tensors.size();
  layout_.append_to(arguments);
}

std::vector<const Parameter*> WholeStep::written() const {
  std::vector<const Parameter*> found;
  each_with(layout_, versions_, [&](const Parameter& parameter, uint32_t before) {
    if (version_of(layout_, parameter) != before) found.push_back(&parameter);
  });
  return found;
}

void WholeStep::note_call(const std::vector<const Parameter*>& written) {
  if (layout_.updates) return zero_grad();
  for (const auto* parameter : written) {
    sums_[parameter->tensor.unsafeGetTensorImpl()].is_empty = false;
  }
  ++calls_since_update_;
}

void WholeStep::end() {
  const auto parameters = written();
  if (layout_.updates) optimizer_->note_steps(parameters);
  note_call(parameters);
}

at::Tensor WholeStep::end_eagerly(const at::Tensor& loss) {
  Tensors parameters;
  layout_.each_parameter([&](const Parameter& p) { parameters.push_back(p.tensor); });
  auto gradients = torch::autograd::grad({loss}, parameters, {}, std::nullopt, false,
                                         /*allow_unused=*/true);
  const at::NoGradGuard no_grad;
  if (layout_.updates) {
    step_with(limited(with_sums(std::move(gradients))));
  } else {
    for (const auto& [sum, value] : added_up(gradients)) sum.copy_(value);
  }
  note_call(written());
  return loss.detach();
}

void WholeStep::step_with(const Tensors& gradients) {
  const auto exchange = [&](const Tensors& given) {
    Tensors before;
    each_with(layout_, given, [&](const Parameter& p, const at::Tensor& gradient) {
      before.push_back(std::exchange(p.tensor.mutable_grad(), gradient));
    });
    return before;
  };
  const auto before = exchange(gradients);
  try {
    optimizer_->step();
  } catch (...) {
    exchange(before);
    throw;
  }
  exchange(before);
}

detail::StepUpdate WholeStep::update() {
  return [this](const auto& gradients, const auto& arguments) {
    return new_values(gradients, arguments);
  };
}

WholeStep::Pairs WholeStep::new_values(const Pairs& gradients, const Tensors& arguments) const {
  std::unordered_map<const c10::TensorImpl*, at::Tensor> gradient_of;
  for (const auto& [input, gradient] : gradients) {
    gradient_of.emplace(input.unsafeGetTensorImpl(), gradient);
  }
  Tensors found;
  layout_.each_parameter([&](const Parameter& parameter) {
    const auto gradient = gradient_of.find(parameter.tensor.unsafeGetTensorImpl());
    found.push_back(gradient == gradient_of.end() ? at::Tensor() : gradient->second);
  });
  auto values =
      layout_.updates ? updated(limited(with_sums(std::move(found))), arguments) : added_up(found);
  // What is computed for an input without elements is computed for what it does.
  for (const auto& [input, gradient] : gradients) {
    if (input.numel() == 0) values.emplace_back(input, gradient);
  }
  return values;
}

// Gradients of this call and those before it.
Tensors WholeStep::with_sums(Tensors gradients) const {
  each_with(layout_, gradients, [](const Parameter& parameter, at::Tensor& gradient) {
    if (gradient.defined()) {
      gradient = with_sum(parameter, gradient);
    } else if (parameter.has_sum) {
      gradient = parameter.sum;
    }
  });
  return gradients;
}

// The gradients that are there, limited; the others stay undefined.
Tensors WholeStep::limited(Tensors gradients) const {
  Tensors defined;
  for (const auto& gradient : gradients) {
    if (gradient.defined()) defined.push_back(gradient);
  }
  if (options_.clip_norm && capture::used_placeholders()) {
    throw OptionError(
        ErrorText{"no clip_norm in the step of a sharded module", "one of parts of the parameters",
                  "compile() the loss, and call Sharded::clip_grad_norm_(), which asks all ranks"});
  }
  defined = clipped(std::move(defined), options_, optimizer_->clip_factor());
  auto next = defined.begin();
  for (auto& gradient : gradients) {
    if (gradient.defined()) gradient = *next++;
  }
  return gradients;
}

WholeStep::Pairs WholeStep::added_up(const Tensors& gradients) const {
  Pairs values;
  each_with(layout_, gradients, [&](const Parameter& parameter, const at::Tensor& gradient) {
    if (gradient.defined()) values.emplace_back(parameter.sum, with_sum(parameter, gradient));
  });
  return values;
}

WholeStep::Pairs WholeStep::updated(const Tensors& gradients, const Tensors& arguments) const {
  auto next = arguments.begin() + static_cast<std::ptrdiff_t>(arguments_);
  const auto read = [&](Scalars& into, size_t count) {
    for (; count > 0; --count) into.push_back(capture::number_in_leaf(*next++));
  };
  Pairs values;
  auto gradient = gradients.begin();
  for (const auto& group : layout_.groups) {
    Scalars of_group;
    read(of_group, group.numbers.size());
    for (const auto& parameter : group.parameters) {
      auto numbers = of_group;
      read(numbers, parameter.numbers.size());
      const auto& state = parameter.state;
      next += static_cast<std::ptrdiff_t>(state.size() + (parameter.sum.defined() ? 1 : 0));
      const auto& own = *gradient++;
      if (!own.defined()) continue;
      const auto made = optimizer_->update()(parameter.form, parameter.tensor, own, state, numbers);
      values.emplace_back(parameter.tensor, made.at(0));
      for (size_t i = 0; i < state.size(); ++i) values.emplace_back(state[i], made.at(i + 1));
    }
  }
  return values;
}

void WholeStep::zero_grad() {
  for (auto& [parameter, sum] : sums_) sum.is_empty = true;
  calls_since_update_ = 0;
}

Options checked(Options options) {
  if (options.check_against_eager == 0) return options;  // a check would run the step twice
  throw OptionError(ErrorText{"check_against_eager=0 for a whole step",
                              fmt::format("{}", options.check_against_eager),
                              "check the loss, compiled alone (antegrad::compile)"});
}

}  // namespace antegrad::step
