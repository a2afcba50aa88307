#include "runtime/generator_states.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <algorithm>

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
  for (const auto& generator : generators_) {
    const auto state = torch_compat::state_of(generator).contiguous();
    const auto* bytes = state.const_data_ptr<uint8_t>();
    states_.emplace_back(bytes, bytes + state.numel());
  }
}

void GeneratorStates::restore() const {
  for (size_t i = 0; i < generators_.size(); ++i) {
    const auto& bytes = states_[i];
    auto state = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
    std::ranges::copy(bytes, state.mutable_data_ptr<uint8_t>());
    torch_compat::put_back(generators_[i], state);
  }
}

}  // namespace antegrad::runtime
