#include "step/update_rule.h"

#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace antegrad::step {
namespace {

using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::AdamParamState;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;
using torch::optim::SGD;
using torch::optim::SGDOptions;
using torch::optim::SGDParamState;
using Form = std::vector<HostValue>;
using Numbers = std::vector<double>;
using Scalars = std::vector<at::Scalar>;

template <class T>
bool is_a(const Optimizer& optimizer) {
  return dynamic_cast<const T*>(&optimizer) != nullptr;
}

bool flag(const Form& form, size_t index) { return std::get<bool>(form.at(index)); }

// torch/csrc/api/src/optim/sgd.cpp
struct SgdRule {
  using Options = SGDOptions;
  using State = SGDParamState;
  enum { decays, has_momentum, nesterov, first };  // of the form
  enum { decay, momentum, rest, step };            // numbers

  static Form form(const Options& options, const State* state) {
    return {options.weight_decay() != 0, options.momentum() != 0, options.nesterov(),
            state == nullptr};
  }
  static int64_t steps(const State*) { return 0; }
  static Numbers numbers(const Options& options) {
    return {options.weight_decay(), options.momentum(), 1 - options.dampening(), -1 * options.lr()};
  }
  static Numbers numbers_of_step(const Options&, int64_t) { return {}; }
  static Tensors tensors(const Options& options, const State* state, const at::Tensor& p) {
    if (options.momentum() == 0) return {};
    return {state == nullptr ? at::empty_like(p) : state->momentum_buffer()};
  }
  static Tensors update(const Form& form, const at::Tensor& p, const at::Tensor& gradient,
                        const Tensors& state, const Scalars& n) {
    auto d = flag(form, decays) ? gradient.add(p, n[decay]) : gradient;
    if (!flag(form, has_momentum)) return {p.add(d, n[step])};
    const auto buffer =
        flag(form, first) ? at::clone(d) : state[0].mul(n[momentum]).add(d, n[rest]);
    d = flag(form, nesterov) ? d.add(buffer, n[momentum]) : buffer;
    return {p.add(d, n[step]), buffer};
  }
  static void note_step(std::unique_ptr<OptimizerParamState>& state, const Tensors& tensors) {
    if (state != nullptr || tensors.empty()) return;
    auto made = std::make_unique<State>();
    made->momentum_buffer(tensors[0]);
    state = std::move(made);
  }
};

// torch/csrc/api/src/optim/adam.cpp and adamw.cpp: they differ in where the weight decays.
template <class OptionsOfIt, class StateOfIt>
struct AdamRule {
  using Options = OptionsOfIt;
  using State = StateOfIt;
  static constexpr bool kDecoupled = std::is_same_v<Options, AdamWOptions>;
  enum { decays, amsgrad };
  enum { decay, beta1, rest1, beta2, rest2, eps, root, step };

  static Form form(const Options& options, const State*) {
    return {options.weight_decay() != 0, options.amsgrad()};
  }
  static int64_t steps(const State* state) { return state == nullptr ? 0 : state->step(); }
  static Numbers numbers(const Options& options) {
    const auto [b1, b2] = options.betas();
    const double weight_decay = options.weight_decay();
    return {kDecoupled ? 1 - options.lr() * weight_decay : weight_decay,
            b1,
            1 - b1,
            b2,
            1 - b2,
            options.eps()};
  }
  static Numbers numbers_of_step(const Options& options, int64_t steps) {
    const auto [b1, b2] = options.betas();
    const double correction1 = 1 - std::pow(b1, steps + 1);
    const double correction2 = 1 - std::pow(b2, steps + 1);
    return {std::sqrt(correction2), -(options.lr() / correction1)};
  }
  static Tensors tensors(const Options& options, const State* state, const at::Tensor& p) {
    const auto zeros = [&] { return at::zeros_like(p, at::MemoryFormat::Preserve); };
    Tensors found = state == nullptr ? Tensors{zeros(), zeros()}
                                     : Tensors{state->exp_avg(), state->exp_avg_sq()};
    if (options.amsgrad()) {
      const bool known = state != nullptr && state->max_exp_avg_sq().defined();
      found.push_back(known ? state->max_exp_avg_sq() : zeros());
    }
    return found;
  }
  static Tensors update(const Form& form, const at::Tensor& p, const at::Tensor& gradient,
                        const Tensors& state, const Scalars& n) {
    const bool couples = flag(form, decays) && !kDecoupled;
    const auto g = couples ? gradient.add(p, n[decay]) : gradient;
    const auto decayed = flag(form, decays) && kDecoupled ? p.mul(n[decay]) : p;
    Tensors made{{},
                 state[0].mul(n[beta1]).add(g, n[rest1]),
                 state[1].mul(n[beta2]).addcmul(g, g, n[rest2])};
    if (flag(form, amsgrad)) made.push_back(at::maximum(state[2], made[2]));
    const auto denominator = made.back().sqrt().div(n[root]).add(n[eps]);
    made[0] = decayed.addcdiv(made[1], denominator, n[step]);
    return made;
  }
  static void note_step(std::unique_ptr<OptimizerParamState>& state, const Tensors& tensors) {
    if (state == nullptr) {
      auto made = std::make_unique<State>();
      made->exp_avg(tensors[0]);
      made->exp_avg_sq(tensors[1]);
      state = std::move(made);
    }
    auto& known = static_cast<State&>(*state);
    if (tensors.size() > 2) known.max_exp_avg_sq(tensors[2]);
    known.step(known.step() + 1);
  }
};

// The functions of a rule for the classes of the optimizer's options and state.
template <class Rule, class Class>
constexpr UpdateRule rule(std::string_view name) {
  using Options = typename Rule::Options;
  using State = typename Rule::State;
  return {
      .name = name,
      .is_for = &is_a<Class>,
      .form =
          [](const OptimizerOptions& options, const OptimizerParamState* state) {
            return Rule::form(static_cast<const Options&>(options),
                              static_cast<const State*>(state));
          },
      .steps =
          [](const OptimizerParamState* state) {
            return Rule::steps(static_cast<const State*>(state));
          },
      .numbers =
          [](const OptimizerOptions& options) {
            return Rule::numbers(static_cast<const Options&>(options));
          },
      .numbers_of_step =
          [](const OptimizerOptions& options, int64_t steps) {
            return Rule::numbers_of_step(static_cast<const Options&>(options), steps);
          },
      .tensors =
          [](const OptimizerOptions& options, const OptimizerParamState* state,
             const at::Tensor& parameter) {
            return Rule::tensors(static_cast<const Options&>(options),
                                 static_cast<const State*>(state), parameter);
          },
      .update = &Rule::update,
      .note_step = &Rule::note_step,
  };
}

const std::array kRules = {
    rule<SgdRule, SGD>("SGD"),
    rule<AdamRule<AdamOptions, AdamParamState>, Adam>("Adam"),
    rule<AdamRule<AdamWOptions, AdamWParamState>, AdamW>("AdamW"),
};

}  // namespace

const UpdateRule* rule_for(const Optimizer& optimizer) {
  const auto found =
      std::ranges::find_if(kRules, [&](const UpdateRule& rule) { return rule.is_for(optimizer); });
  return found == kRules.end() ? nullptr : &*found;
}

std::string names_of_rules() {
  std::vector<std::string_view> names;
  for (const auto& rule : kRules) names.push_back(rule.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace antegrad::step
