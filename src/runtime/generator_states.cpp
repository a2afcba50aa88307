#include "runtime/generator_states.h"

#include <ATen/Context.h>

#include "torch_compat/generator_state.h"

namespace antegrad::runtime {

at::Generator generator_of(const Graph& graph, const ops::AttrTables& tables, size_t index) {
  const auto& own = tables.generators.at(index);
  // Default generators are identified by their device.
  return own.defined()
             ? own
             : at::globalContext().defaultGenerator(c10::Device(graph.generators.at(index)));
}

std::vector<at::Generator> generators_of(const Graph& graph, const ops::AttrTables& tables) {
  std::vector<at::Generator> generators;
  for (const auto& input : graph.inputs) {
    if (input.kind != InputKind::generator_token) continue;
    generators.push_back(generator_of(graph, tables, input.index));
  }
  return generators;
}

GeneratorStates::GeneratorStates(const std::vector<at::Generator>& generators)
    : generators_(generators) {
  for (const auto& generator : generators_) states_.push_back(torch_compat::state_of(generator));
}

void GeneratorStates::restore() const {
  for (size_t i = 0; i < generators_.size(); ++i) {
    torch_compat::put_back(generators_[i], states_[i]);
  }
}

}  // namespace antegrad::runtime
