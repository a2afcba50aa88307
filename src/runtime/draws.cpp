#include "runtime/draws.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/generator_states.h"
#include "runtime/twin_call.h"
#include "torch_compat/generator_state.h"
#include "torch_compat/stream_capture.h"

namespace antegrad::runtime {
namespace {

bool is_generator(const c10::Argument& argument) {
  const auto type = argument.real_type();
  const auto* optional = type->castRaw<c10::OptionalType>();
  const auto& held = optional != nullptr ? *optional->getElementType() : *type;
  return held.kind() == c10::TypeKind::GeneratorType;
}

// The position of the generator argument if `with` equals `plain` except for it; otherwise -1.
int32_t added_generator(const c10::FunctionSchema& plain, const c10::FunctionSchema& with) {
  const auto& before = plain.arguments();
  const auto& after = with.arguments();
  if (after.size() != before.size() + 1 || plain.returns().size() != with.returns().size())
    return -1;
  int32_t position = -1;
  for (size_t i = 0, b = 0; i < after.size(); ++i) {
    if (position < 0 && is_generator(after[i])) {
      position = static_cast<int32_t>(i);
    } else if (b == before.size() || *after[i].real_type() != *before[b++].real_type()) {
      return -1;
    }
  }
  return position;
}

// libtorch's names of overloads with a generator: rand, rand.generator; randint.low,
// randint.low_generator; randint_like.low_dtype, randint_like.low_generator_dtype.
std::vector<std::string> names_with_generator(const std::string& overload) {
  if (overload.empty()) return {"generator"};
  std::vector<std::string> names{overload + "_generator"};
  if (const auto end = overload.rfind('_'); end != std::string::npos) {
    names.push_back(overload.substr(0, end) + "_generator" + overload.substr(end));
  }
  return names;
}

// Serialises repetitions on default generators.
std::mutex& exchange_mutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}

class ExchangedState {
 public:
  ExchangedState(const at::Generator& generator, const at::Tensor& state)
      : lock_(exchange_mutex()), before_({generator}) {
    torch_compat::set_state(generator, state);
  }
  ~ExchangedState() { before_.restore(); }

 private:
  std::lock_guard<std::mutex> lock_;
  GeneratorStates before_;
};

}  // namespace

RepeatableDraw::RepeatableDraw(const ops::OpEntry& entry, at::Generator generator)
    : entry_(entry), generator_(std::move(generator)), position_(entry.generator_arg) {
  if (position_ >= 0 || entry.is_twin) return;
  const auto& name = entry.handle.operator_name();
  for (const auto& overload : names_with_generator(name.overload_name)) {
    const auto found = c10::Dispatcher::singleton().findSchema({name.name, overload});
    if (!found) continue;
    position_ = added_generator(entry.handle.schema(), found->schema());
    if (position_ < 0) continue;
    overload_ = *found;
    return;
  }
}

// A CUDA graph would not know a copied generator, or would take it for another one.
bool RepeatableDraw::on_copies() const {
  return position_ >= 0 && !torch_compat::in_stream_capture(generator_);
}

void RepeatableDraw::run(torch::jit::Stack& stack) const {
  if (entry_.is_twin) {
    call_twin(entry_, stack);
  } else {
    entry_.handle.callBoxed(stack);
  }
}

void RepeatableDraw::run_with(torch::jit::Stack& stack, const at::Generator& generator) const {
  if (overload_) {
    stack.insert(stack.begin() + position_, generator);
    overload_->callBoxed(stack);
  } else {
    stack[position_] = generator;
    run(stack);
  }
}

at::Tensor RepeatableDraw::record(torch::jit::Stack& stack) const {
  if (!on_copies()) {
    auto state = torch_compat::state_of(generator_);
    run(stack);
    return state;
  }
  // On a copy, so that no draw of another thread comes between reading the state and the draw. It
  // is valid if the generator has not changed meanwhile.
  const auto arguments = stack;
  auto shared = generator_;
  while (true) {
    at::Generator own;
    at::Tensor state;
    {
      const std::lock_guard lock(shared.mutex());
      own = shared.clone();
      state = shared.get_state();
    }
    run_with(stack, own);
    const std::lock_guard lock(shared.mutex());
    if (torch_compat::same_state(shared.get_state(), state)) {
      shared.set_state(own.get_state());
      return state;
    }
    stack = arguments;
  }
}

void RepeatableDraw::repeat(torch::jit::Stack& stack, const at::Tensor& state) const {
  if (!on_copies()) {
    const ExchangedState exchanged(generator_, state);
    run(stack);
    return;
  }
  auto shared = generator_;
  at::Generator own;
  {
    const std::lock_guard lock(shared.mutex());
    own = shared.clone();
  }
  torch_compat::set_state(own, state);
  run_with(stack, own);
}

}  // namespace antegrad::runtime
