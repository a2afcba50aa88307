#include "distributed/optimizer_state.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <iterator>

namespace antegrad::distributed {
namespace {

using torch::optim::Optimizer;

struct Kind {
  const char* name;
  bool (*is)(const Optimizer&);
  std::unique_ptr<ParameterState> (*make)();
  bool (*parts)(ParameterState&, StateParts&);
};

template <class OfOptimizer, class State, StateParts (*Parts)(State&)>
Kind kind(const char* name) {
  return {name,
          [](const Optimizer& optimizer) {
            return dynamic_cast<const OfOptimizer*>(&optimizer) != nullptr;
          },
          []() -> std::unique_ptr<ParameterState> { return std::make_unique<State>(); },
          [](ParameterState& state, StateParts& found) {
            auto* const known = dynamic_cast<State*>(&state);
            if (known != nullptr) found = Parts(*known);
            return known != nullptr;
          }};
}

template <class State>
StateParts of_adam(State& state) {
  return {{{"exp_avg", &state.exp_avg()},
           {"exp_avg_sq", &state.exp_avg_sq()},
           {"max_exp_avg_sq", &state.max_exp_avg_sq()}},
          {{"step", &state.step()}}};
}

StateParts of_sgd(torch::optim::SGDParamState& state) {
  return {{{"momentum_buffer", &state.momentum_buffer()}}, {}};
}

StateParts of_rmsprop(torch::optim::RMSpropParamState& state) {
  return {{{"square_avg", &state.square_avg()},
           {"momentum_buffer", &state.momentum_buffer()},
           {"grad_avg", &state.grad_avg()}},
          {{"step", &state.step()}}};
}

StateParts of_adagrad(torch::optim::AdagradParamState& state) {
  return {{{"sum", &state.sum()}}, {{"step", &state.step()}}};
}

const std::vector<Kind>& kinds() {
  using namespace torch::optim;  // NOLINT
  static const auto* const all = new std::vector<Kind>{
      kind<AdamW, AdamWParamState, of_adam>("AdamW"),
      kind<Adam, AdamParamState, of_adam>("Adam"),
      kind<SGD, SGDParamState, of_sgd>("SGD"),
      kind<RMSprop, RMSpropParamState, of_rmsprop>("RMSprop"),
      kind<Adagrad, AdagradParamState, of_adagrad>("Adagrad"),
  };
  return *all;
}

}  // namespace

std::string kind_of(const Optimizer& optimizer) {
  for (const auto& kind : kinds()) {
    if (kind.is(optimizer)) return kind.name;
  }
  return "";
}

std::unique_ptr<ParameterState> new_state(const Optimizer& optimizer) {
  for (const auto& kind : kinds()) {
    if (kind.is(optimizer)) return kind.make();
  }
  return nullptr;
}

StateParts parts_of(ParameterState& state) {
  StateParts parts;
  for (const auto& kind : kinds()) {
    if (kind.parts(state, parts)) break;
  }
  return parts;
}

}  // namespace antegrad::distributed
