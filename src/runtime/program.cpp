#include "runtime/program.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <antegrad/error.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "ops/backward_hook.h"
#include "ops/number.h"
#include "runtime/expected_output.h"
#include "runtime/twin_call.h"

namespace antegrad::runtime {

c10::IValue Program::argument(const Argument& argument, std::vector<at::Tensor>& registers) const {
  const auto at = [&](int32_t index) -> at::Tensor& { return registers[index]; };
  const auto filled = [&](auto list) {
    using Element = typename decltype(list)::value_type;
    for (const auto& entry : code_->lists[argument.index]) {
      if (entry.origin == Origin::constant) {
        list.push_back(Element());
      } else if (entry.origin == Origin::move) {
        list.push_back(Element(std::move(at(entry.index))));
      } else {
        list.push_back(Element(at(entry.index)));
      }
    }
    return c10::IValue(std::move(list));
  };
  switch (argument.origin) {
    case Origin::constant: return constants_[argument.index];
    case Origin::copy: return at(argument.index);
    case Origin::move: return std::move(at(argument.index));
    case Origin::number: return ops::to_scalar(ops::read_number(at(argument.index)));
    case Origin::list: return filled(c10::List<at::Tensor>());
    case Origin::optional_list: return filled(c10::List<std::optional<at::Tensor>>());
  }
  throw InternalError("unknown origin of an argument");
}

void Program::check(const ops::OpEntry& entry,
                    const std::vector<torch_compat::TensorMetadata>& expected,
                    const torch::jit::Stack& stack) {
  size_t next = 0;
  const auto compare = [&](const at::Tensor& returned) {
    AG_CHECK(next < expected.size(), "no more tensors than were expected");
    const auto& output = expected[next++];
    if (entry.policy != ops::Policy::dynamic_outputs) {
      require_as_expected(output, returned, entry.op.name());
    } else if (!is_as_expected(output, returned)) {
      throw ops::UnexpectedAnswer{.found = {.outputs = shapes::specs_of(stack)}};
    }
  };
  for (const auto& value : stack) {
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorList()) compare(t);
    } else {
      compare(value.isTensor() ? value.toTensor() : at::Tensor());
    }
  }
  AG_CHECK(next == expected.size(), "as many tensors as were expected");
}

void Program::call_kernel(const Instruction& instruction, const Special* special,
                          std::vector<at::Tensor>& registers, torch::jit::Stack& stack) {
  const auto& entry = *instruction.entry;
  if (special != nullptr && special->draw) {
    auto& state = registers[special->state];
    if (special->repeats) {
      special->draw->repeat(stack, special->state_dies ? std::exchange(state, {}) : state);
    } else {
      state = special->draw->record(stack);
    }
  } else if (entry.is_twin) {
    call_twin(entry, stack, instruction.overwrites);
  } else {
    entry.handle.callBoxed(stack);
  }
}

namespace {

// The state in which a backward runs a node of the forward again, and a range that shows it to
// profilers.
class RunsAgain {
 public:
  explicit RunsAgain(const ops::OpEntry& entry) : range_(at::RecordScope::FUNCTION) {
    if (range_.isActive()) range_.before("AntegradRecompute:" + entry.op.name());
  }

 private:
  at::AutoGradMode as_in_forward_{true};
  at::RecordFunction range_;
};

// Bit for bit; tensors and other objects by identity.
bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  if (a.isDouble() && b.isDouble()) {
    return std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());
  }
  return a.isTensor() || b.isTensor() ? a.is(b) : a == b;
}

}  // namespace

// A copy in memory of its own size. Some kernels return a view of a large intermediate.
at::Tensor in_own_memory(at::Tensor tensor) {
  if (!tensor.defined() || tensor.storage().nbytes() <= tensor.nbytes()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).copy_(tensor);
}

void Program::call(const Instruction& instruction, std::vector<at::Tensor>& registers,
                   torch::jit::Stack& stack) const {
  const auto arguments = std::span(code_->arguments)
                             .subspan(instruction.first_argument, instruction.entry->args.size());
  for (const auto& arg : arguments) stack.push_back(argument(arg, registers));
  const auto* special = instruction.special < 0 ? nullptr : &specials_[instruction.special];
  const bool checks = special != nullptr && special->aliases != AliasCheck::off;
  auto seen = checks ? memory_of_arguments(stack) : SeenMemory();
  {
    std::optional<RunsAgain> runs_again;
    if (instruction.runs_again) runs_again.emplace(*instruction.entry);
    call_kernel(instruction, special, registers, stack);
  }
  if (special != nullptr && !special->expected.empty()) {
    check(*instruction.entry, special->expected, stack);
  }
  if (checks) check_aliases(*instruction.entry, special->aliases, std::move(seen), stack);
  store_results(instruction, registers, stack);
}

void Program::call_generated(const Instruction& instruction,
                             std::vector<at::Tensor>& registers) const {
  const auto& kernel = generated_[instruction.special];
  at::RecordFunction range(at::RecordScope::FUNCTION);
  if (range.isActive()) range.before("AntegradKernel:" + kernel.name());
  std::vector<at::Tensor> inputs;
  inputs.reserve(kernel.input_count());
  const auto arguments =
      std::span(code_->arguments).subspan(instruction.first_argument, kernel.input_count());
  for (const auto& argument : arguments) {
    auto& tensor = registers[argument.index];
    inputs.push_back(argument.origin == Origin::move ? std::move(tensor) : tensor);
  }
  auto made = kernel.run(std::move(inputs));
  for (size_t i = 0; i < made.size(); ++i) {
    const auto reg = code_->results[instruction.first_result + i];
    if (reg >= 0) registers[reg] = std::move(made[i]);
  }
}

void Program::store_results(const Instruction& instruction, std::vector<at::Tensor>& registers,
                            torch::jit::Stack& stack) const {
  const auto results =
      std::span(code_->results).subspan(instruction.first_result, instruction.result_count);
  size_t next = 0;
  const auto store = [&](at::Tensor tensor) {
    AG_CHECK(next < results.size(), "no more tensors than the graph has");
    const auto reg = results[next++];
    if (reg < 0) return;
    registers[reg] = instruction.oversized ? in_own_memory(std::move(tensor)) : std::move(tensor);
  };
  for (auto& value : stack) {
    if (value.isTensor()) {
      store(std::move(value).toTensor());
    } else if (value.isTensorList()) {
      for (auto& t : value.toTensorVector()) store(std::move(t));
    } else {
      store(at::Tensor());
    }
  }
  stack.clear();
}

// Runs all instructions from `position`, which is the current one.
std::vector<at::Tensor> Program::run_up_to(size_t& position, std::vector<at::Tensor>& registers,
                                           torch::jit::Stack& stack) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  stack.reserve(16);
  const auto& instructions = code_->instructions;
  for (; position < instructions.size(); ++position) {
    const auto& instruction = instructions[position];
    if (instruction.entry == nullptr) {
      call_generated(instruction, registers);
    } else {
      call(instruction, registers, stack);
    }
  }
  std::vector<at::Tensor> outputs;
  outputs.reserve(code_->outputs.size());
  for (const auto reg : code_->outputs) outputs.push_back(reg < 0 ? at::Tensor() : registers[reg]);
  return outputs;
}

// What it throws passes as it is, as in a plain backward.
bool Program::is_users_hook(const Instruction& instruction) {
  return instruction.entry != nullptr &&
         instruction.entry->op.info().base_name == ops::kBackwardHook;
}

std::string Program::place_of(const Instruction& instruction, const LineFinder& line_of) const {
  const auto line = line_of ? line_of(instruction.node_id) : std::string();
  const auto& what = instruction.entry == nullptr ? generated_[instruction.special].name()
                                                  : instruction.entry->op.name();
  return "while antegrad ran " + what + ", node #" + std::to_string(instruction.node_id) + " of '" +
         name_ + "'" + (line.empty() ? "" : ", from " + line);
}

std::vector<at::Tensor> Program::into_registers(std::vector<at::Tensor> inputs) const {
  std::vector<at::Tensor> registers(code_->register_count);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto reg = code_->inputs[i];
    if (reg >= 0) registers[reg] = std::move(inputs[i]);
  }
  inputs.clear();  // a parameter lives as long as the caller's expression
  return registers;
}

std::optional<std::vector<at::Tensor>> Program::replay_graph(std::vector<at::Tensor>& inputs) const
    try {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (code_->inputs[i] < 0) inputs[i].reset();  // nobody reads it
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return graphs_->run(inputs, [&](std::vector<at::Tensor> recorded) {
    auto registers = into_registers(std::move(recorded));
    torch::jit::Stack stack;
    size_t position = 0;
    return run_up_to(position, registers, stack);
  });
} catch (...) {
  rethrow_with("while antegrad started the CUDA graph of '" + name_ + "'");
}

std::vector<at::Tensor> Program::run(std::vector<at::Tensor> inputs, const LineFinder& line_of,
                                     StoppedRun* stopped, Replay replay) const {
  AG_CHECK(inputs.size() == code_->inputs.size(), "number of program inputs");
  if (graphs_ != nullptr) {
    if (replay == Replay::never) {
      graphs_->ran_without(NodeByNode::hooks);
    } else if (auto outputs = replay_graph(inputs)) {
      return std::move(*outputs);
    }
  }
  return run_from(0, into_registers(std::move(inputs)), line_of, stopped);
}

bool Program::can_continue(const StoppedRun& run) const {
  if (code_ != run.code) return false;
  const auto& question = code_->instructions[run.position];
  // The answer itself is an argument of an instruction without results.
  const auto own = question.result_count == 0 ? 0 : question.entry->args.size();
  const auto before = std::span(code_->arguments).first(question.first_argument + own);
  const auto same_argument = [&](const Argument& argument) {
    return argument.origin != Origin::constant ||
           same_constant(constants_[argument.index], run.constants[argument.index]);
  };
  const auto same_kernel = [&](const Instruction& instruction) {
    return instruction.entry != nullptr ||
           generated_[instruction.special].same_as(run.generated[instruction.special]);
  };
  return std::ranges::all_of(before, same_argument) &&
         std::ranges::all_of(std::span(code_->instructions).first(run.position), same_kernel);
}

std::vector<at::Tensor> Program::continue_run(StoppedRun run, const LineFinder& line_of,
                                              StoppedRun* stopped) const {
  return run_from(run.position + 1, std::move(run.registers), line_of, stopped);
}

std::vector<at::Tensor> Program::run_from(size_t position, std::vector<at::Tensor> registers,
                                          const LineFinder& line_of, StoppedRun* stopped) const {
  const auto& instructions = code_->instructions;
  torch::jit::Stack stack;
  try {
    return run_up_to(position, registers, stack);
  } catch (ops::UnexpectedAnswer& other) {
    const auto& question = instructions[position];
    other.node = question.node_id;
    if (stopped != nullptr && !question.oversized) {
      if (question.result_count > 0) store_results(question, registers, stack);
      *stopped = {code_, constants_, generated_, position, std::move(registers)};
    }
    throw;
  } catch (...) {
    registers.clear();
    stack.clear();
    // Outside of the guards, so that the dispatcher's state is the caller's: a search for the line
    // runs the callable.
    if (position == instructions.size() || is_users_hook(instructions[position])) throw;
    rethrow_with(place_of(instructions[position], line_of));
  }
}

}  // namespace antegrad::runtime
