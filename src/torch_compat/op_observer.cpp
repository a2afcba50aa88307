#include "torch_compat/op_observer.h"

#include <ATen/record_function.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "torch_compat/tracer_context.h"

namespace antegrad::torch_compat {
namespace {

struct ThreadState {
  std::vector<OpObserver*> observers;
  at::CallbackHandle handle = 0;
  bool enabled_before = true;
  // By the address of the schema's name: comparing names takes as long as a small operator.
  std::unordered_map<const char*, std::optional<c10::OperatorHandle>> ops;
};
thread_local ThreadState state;

const std::optional<c10::OperatorHandle>& op_of(const at::RecordFunction& call) {
  auto [it, is_new] = state.ops.try_emplace(call.name());
  if (is_new) {
    if (const auto name = call.operator_name()) {
      it->second = c10::Dispatcher::singleton().findSchema(*name);
    }
  }
  return it->second;
}

// Passed to the end of a call whose start was reported.
struct Told : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& call) {
  if (carried() != nullptr) return nullptr;
  const at::DisableRecordFunctionGuard unseen;
  const auto& op = op_of(call);
  if (!op) return nullptr;
  for (auto* observer : state.observers) observer->before(*op, call.inputs());
  return std::make_unique<Told>();
}

void end(const at::RecordFunction& call, at::ObserverContext* context) {
  if (context == nullptr) return;
  const at::DisableRecordFunctionGuard unseen;
  for (auto* observer : state.observers) observer->after(call.outputs());
}

}  // namespace

ObserverScope::ObserverScope(OpObserver& observer) {
  if (state.observers.empty()) {
    state.enabled_before = at::isRecordFunctionEnabled();
    at::enableRecordFunction(true);
    state.handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&start, &end)
                                                  .needsInputs(true)
                                                  .needsOutputs(true)
                                                  .scopes({at::RecordScope::FUNCTION}));
  }
  state.observers.push_back(&observer);
}

bool is_observed() { return !state.observers.empty(); }

ObserverScope::~ObserverScope() {
  state.observers.pop_back();
  if (!state.observers.empty()) return;
  at::removeCallback(state.handle);
  at::enableRecordFunction(state.enabled_before);
  state.ops.clear();
}

}  // namespace antegrad::torch_compat
