#include "minify/run.h"

#include <ATen/core/Generator.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "check/tensor_bits.h"
#include "minify/inputs.h"
#include "minify/interpreter.h"
#include "runtime/generator_states.h"
#include "torch_compat/generator_state.h"

namespace antegrad::minify {
namespace {

bool all_finite(const Tensors& tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& t) {
    return !t.defined() || !c10::isFloatingType(t.scalar_type()) ||
           t.to(at::kDouble).isfinite().all().item<bool>();
  });
}

std::string output_name(const Output& output, size_t position) {
  if (output.kind == OutputKind::gradient)
    return fmt::format("the gradient of input {}", output.index);
  if (output.kind == OutputKind::mutated_input) {
    return fmt::format("what is written to input {}", output.index);
  }
  return fmt::format("result {}", position);
}

}  // namespace

Run::Run(const Subject& s) : subject(s), options(s.options), tables(make_tables(s.graph, s.seed)) {}

void Run::run_eagerly() {
  std::exception_ptr refused;
  const auto& graph = subject.graph;
  for (const auto data : kAllData) {
    auto made = make_inputs(graph, subject.seed, data);
    try {
      seed_generators();
      auto results = interpret(graph, tables, copies_of(made), require_metadata(graph));
      const bool finite = all_finite(results);
      if (runs && !finite) continue;
      runs = true;
      inputs = std::move(made);
      outputs = std::move(results);
      states = generator_states();
      if (finite) return;
    } catch (const std::exception&) {
      if (!refused) refused = std::current_exception();
    }
  }
  if (!runs) std::rethrow_exception(refused);
}

void Run::seed_generators() const {
  for (auto& generator : runtime::generators_of(subject.graph, tables)) {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(subject.seed);
  }
}

Tensors Run::generator_states() const {
  Tensors found;
  for (const auto& generator : runtime::generators_of(subject.graph, tables)) {
    found.push_back(torch_compat::state_of(generator));
  }
  return found;
}

void Run::compare(const Tensors& found, const std::string& pass) const {
  const auto& records = subject.graph.outputs;
  for (size_t i = 0; i < records.size(); ++i) {
    if (!subject.graph.is_tensor(records[i].value)) continue;
    const auto difference = check::bit_difference(outputs[i], found[i]);
    if (difference.empty()) continue;
    throw Difference{pass, output_name(records[i], i) + " differs from eager: " + difference};
  }
  const auto now = generator_states();
  for (size_t i = 0; i < now.size(); ++i) {
    if (torch_compat::same_state(now[i], states[i])) continue;
    throw Difference{pass, "a random generator ends in another state than in eager"};
  }
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const auto& tensor : tensors) copies.push_back(copy_of(tensor));
  return copies;
}

void require_unwritten(const Tensors& was, const Tensors& is, const std::vector<bool>& may_change,
                       const std::string& pass, const char* what) {
  for (size_t i = 0; i < was.size(); ++i) {
    if (may_change[i] || !was[i].defined()) continue;
    const auto difference = check::bit_difference(was[i], is[i]);
    if (difference.empty()) continue;
    throw Difference{pass, fmt::format("{} {} was written: {}", what, i, difference)};
  }
}

}  // namespace antegrad::minify
