#include "runtime/generator_states.h"

#include <ATen/Context.h>

#include <cstring>
#include <mutex>

namespace antegrad::runtime {

at::Generator generator_of(const Graph& graph, const ops::AttrTables& tables, size_t index) {
  const auto& own = tables.generators.at(index);
  // Default generators are named after their device.
  return own.defined()
             ? own
             : at::globalContext().defaultGenerator(c10::Device(graph.generators.at(index)));
}

std::vector<at::Generator> generators_of(const Graph& graph, const ops::AttrTables& tables) {
  std::vector<at::Generator> generators;
  for (const auto& input : graph.inputs) {
    if (input.kind != InputKind::generator_token) continue;
    generators.push_back(generator_of(graph, tables, static_cast<size_t>(input.index)));
  }
  return generators;
}

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

bool same_state(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

GeneratorStates::GeneratorStates(const std::vector<at::Generator>& generators)
    : generators_(generators) {
  for (const auto& generator : generators_) states_.push_back(state_of(generator));
}

void GeneratorStates::restore() const {
  for (size_t i = 0; i < generators_.size(); ++i) set_state(generators_[i], states_[i]);
}

}  // namespace antegrad::runtime
