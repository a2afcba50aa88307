#include "step/torch_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <antegrad/error.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace antegrad::step {
namespace {

namespace optim = torch::optim;
using Numbers = std::vector<double>;

// One class of optimizers: what its options and states say to the arithmetic.
struct Sgd {
  using Options = optim::SGDOptions;
  using State = optim::SGDParamState;
  static constexpr Update kUpdate = &sgd::update;

  static Form form(const Options& options, const State* state) {
    return {options.weight_decay() != 0, options.momentum() != 0, options.nesterov(),
            state == nullptr, /*maximizes=*/false};
  }
  static Numbers numbers(const Options& options) {
    return {options.weight_decay(), options.momentum(), 1 - options.dampening(), -1 * options.lr()};
  }
  static Numbers numbers_of_step(const Options&, const State*) { return {}; }
  static Tensors tensors(const Options& options, const State* state, const at::Tensor& p) {
    if (options.momentum() == 0) return {};
    return {state == nullptr ? at::empty_like(p) : state->momentum_buffer()};
  }
  static void note_step(State& state, const Tensors& tensors) { state.momentum_buffer(tensors[0]); }
};

template <class OptionsOfIt, class StateOfIt>
struct AdamOrAdamW {
  using Options = OptionsOfIt;
  using State = StateOfIt;
  static constexpr Update kUpdate = &adam::update;
  static constexpr bool kDecoupled = std::is_same_v<Options, optim::AdamWOptions>;

  static Form form(const Options& options, const State*) {
    return {options.weight_decay() != 0, kDecoupled, options.amsgrad(), /*by_lerp=*/false,
            /*maximizes=*/false};
  }
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
  static Numbers numbers_of_step(const Options& options, const State* state) {
    const int64_t step = state == nullptr ? 1 : state->step() + 1;
    const auto [b1, b2] = options.betas();
    const double correction1 = 1 - std::pow(b1, step);
    const double correction2 = 1 - std::pow(b2, step);
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
  static void note_step(State& state, const Tensors& tensors) {
    state.exp_avg(tensors[0]);
    state.exp_avg_sq(tensors[1]);
    if (tensors.size() > 2) state.max_exp_avg_sq(tensors[2]);
    state.step(state.step() + 1);
  }
};

template <class Rule>
class TorchOptimizer final : public Optimizer {
  using Options = typename Rule::Options;
  using State = typename Rule::State;

 public:
  explicit TorchOptimizer(optim::Optimizer& optimizer) : optimizer_(optimizer) {}

  Layout layout() override {
    Layout layout;
    const at::NoGradGuard no_grad;
    for (auto& given : optimizer_.param_groups()) {
      const auto& options = static_cast<const Options&>(given.options());
      auto& group = layout.groups.emplace_back();
      group.numbers = Rule::numbers(options);
      for (const auto& parameter : given.params()) {
        if (!parameter.defined() || !parameter.requires_grad()) continue;
        check_parameter(parameter);
        const auto* state = state_of(parameter);
        group.parameters.push_back({.tensor = parameter,
                                    .form = Rule::form(options, state),
                                    .numbers = Rule::numbers_of_step(options, state),
                                    .state = tensors_of(options, state, parameter)});
      }
    }
    return layout;
  }

  Update update() const override { return Rule::kUpdate; }
  ClipFactor clip_factor() const override { return &clip_factor_of_cpp; }

  void note_steps(const std::vector<const Parameter*>& parameters) override {
    for (const auto* parameter : parameters) {
      auto* key = parameter->tensor.unsafeGetTensorImpl();
      unused_.erase(key);
      if (parameter->state.empty()) continue;
      auto& state = optimizer_.state()[key];
      if (state == nullptr) state = std::make_unique<State>();
      Rule::note_step(static_cast<State&>(*state), parameter->state);
    }
  }

  void step() override { optimizer_.step(); }

 private:
  const State* state_of(const at::Tensor& parameter) const {
    const auto& states = std::as_const(optimizer_).state();
    const auto found = states.find(parameter.unsafeGetTensorImpl());
    return found == states.end() ? nullptr : static_cast<const State*>(found->second.get());
  }

  Tensors tensors_of(const Options& options, const State* state, const at::Tensor& parameter) {
    if (state != nullptr) return Rule::tensors(options, state, parameter);
    auto& tensors = unused_[parameter.unsafeGetTensorImpl()];
    if (tensors.empty()) tensors = Rule::tensors(options, nullptr, parameter);
    return tensors;
  }

  optim::Optimizer& optimizer_;
  std::unordered_map<const c10::TensorImpl*, Tensors> unused_;  // of parameters without steps
};

template <class Class, class Rule>
std::shared_ptr<Optimizer> if_a(optim::Optimizer& optimizer) {
  if (dynamic_cast<Class*>(&optimizer) == nullptr) return nullptr;
  return std::make_shared<TorchOptimizer<Rule>>(optimizer);
}

}  // namespace

std::shared_ptr<Optimizer> torch_optimizer(optim::Optimizer& optimizer) {
  if (auto found = if_a<optim::SGD, Sgd>(optimizer)) return found;
  using Adam = AdamOrAdamW<optim::AdamOptions, optim::AdamParamState>;
  if (auto found = if_a<optim::Adam, Adam>(optimizer)) return found;
  using AdamW = AdamOrAdamW<optim::AdamWOptions, optim::AdamWParamState>;
  if (auto found = if_a<optim::AdamW, AdamW>(optimizer)) return found;
  throw OptionError(
      ErrorText{"an optimizer of which the step can be compiled: torch::optim::SGD, Adam or AdamW",
                "another one", "compile the loss alone (antegrad::compile) and call step()"});
}

}  // namespace antegrad::step
