#include "runtime/backward_programs.h"

#include <antegrad/error.h>

#include <algorithm>

#include "runtime/fork_gate.h"

namespace antegrad::runtime {

BackwardKey usual_key(const CallPlan& plan) {
  BackwardKey key;
  key.form.tangents.resize(plan.tangents.size());
  key.wanted.assign(plan.gradients.size(), true);
  return key;
}

BackwardPrograms::BackwardPrograms(const CallPlan& plan, const std::optional<BackwardGraph>& usual,
                                   BackwardSource source, AliasCheck aliases)
    : plan_(plan), source_(std::move(source)), aliases_(aliases) {
  if (usual) programs_.emplace_back(usual_key(plan), prepare(*usual));
}

size_t BackwardPrograms::count() const {
  const ForkSafeLock lock(mutex_);
  return programs_.size();
}

bool BackwardPrograms::has(const BackwardKey& key) const { return find(key) != nullptr; }

std::shared_ptr<const BackwardProgram> BackwardPrograms::find(const BackwardKey& key) const {
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, program] : programs_) {
    if (present == key) return program;
  }
  return nullptr;
}

std::shared_ptr<const BackwardProgram> BackwardPrograms::get(const BackwardKey& key) const {
  if (auto program = find(key)) return program;
  // Without the lock: the source may run the callable, which may wait for other threads.
  auto program = prepare(source_(key));
  const ForkSafeLock lock(mutex_);
  for (const auto& [present, other] : programs_) {
    if (present == key) return other;  // another thread was faster
  }
  return programs_.emplace_back(key, std::move(program)).second;
}

std::shared_ptr<const BackwardProgram> BackwardPrograms::prepare(
    const BackwardGraph& backward) const {
  using Kind = BackwardProgram::Input::Kind;
  const auto& graph = backward.graph;
  BackwardProgram program{Program(graph, backward.tables, aliases_), {}, {}};
  for (const auto& input : graph.inputs) {
    if (input.kind == InputKind::tangent) {
      program.inputs.push_back({Kind::tangent, plan_.tangent_of(input.index)});
    } else if (input.kind == InputKind::saved) {
      const auto other = backward.forward_values.find(input.value);
      const auto value = other == backward.forward_values.end() ? input.value : other->second;
      const auto slot = plan_.slot_of(value);
      AG_CHECK(slot >= 0, "a value that the forward does not save");
      program.inputs.push_back({Kind::saved, slot});
    } else {
      program.inputs.push_back({Kind::token, -1});
    }
  }
  const auto& receivers = plan_.gradients;
  program.gradients.assign(receivers.size(), -1);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto& output = graph.outputs[i];
    if (output.kind != OutputKind::gradient || output.value == kNoValue) continue;
    const auto receiver = std::find(receivers.begin(), receivers.end(), output.index);
    AG_CHECK(receiver != receivers.end(), "a gradient that nobody receives");
    program.gradients[receiver - receivers.begin()] = static_cast<int32_t>(i);
  }
  return std::make_shared<const BackwardProgram>(std::move(program));
}

}  // namespace antegrad::runtime
