#include "check/eager_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/randn.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>

#include "check/clone_arguments.h"
#include "check/tensor_bits.h"
#include "guards/host_values.h"
#include "torch_compat/convert.h"
#include "torch_compat/generator_state.h"
#include "torch_compat/tensor_metadata.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::check {
namespace {

// A snapshot of a tensor after a run; later writes of the run do not change it.
struct Observed {
  std::string name;
  torch_compat::TensorMetadata metadata;  // without the offset, which may differ
  at::Tensor bits = {};                   // undefined if its storage has no memory
  bool requires_grad = false;
};

Observed observe(std::string name, const at::Tensor& tensor) {
  Observed observed{std::move(name), torch_compat::TensorMetadata::of(tensor)};
  if (!tensor.defined()) return observed;
  observed.metadata.offset = 0;
  if (!torch_compat::lacks_memory(tensor)) observed.bits = tensor.detach().clone();
  observed.requires_grad = tensor.requires_grad();
  return observed;
}

struct Outcome {
  std::vector<Observed> tensors;
  std::vector<HostValue> host;
  std::vector<Observed> gradients;
  std::optional<std::string> backward_error;
};

// Random numbers from our own generator, the same for both runs. Strides are those of the result if
// it is dense.
at::Tensor tangent_of(const at::Tensor& result, at::Generator generator) {
  const auto wide = result.is_complex() ? at::kComplexDouble : at::kDouble;
  const auto random = at::randn(result.sizes(), std::move(generator), at::dtype(wide));
  const auto& like = result.is_non_overlapping_and_dense() ? result : random;
  return at::empty_strided(result.sizes(), like.strides(), result.options()).copy_(random);
}

void add_gradients(const std::vector<at::Tensor>& results, const std::vector<NamedTensor>& targets,
                   Outcome& outcome) {
  constexpr uint64_t kSeed = 20240711;
  const auto generator = at::detail::createCPUGenerator(kSeed);
  std::vector<at::Tensor> outputs, tangents, inputs;
  for (const auto& result : results) {
    if (!result.defined() || result.is_leaf() || !result.requires_grad()) continue;
    const at::NoGradGuard no_grad;
    outputs.push_back(result);
    tangents.push_back(tangent_of(result, generator));
  }
  bool outer_history = false;
  for (const auto& target : targets) {
    inputs.push_back(target.tensor);
    outer_history |= !target.tensor.is_leaf();
  }
  if (outputs.empty() || inputs.empty()) return;
  try {
    // The user owns the history of a held tensor: its buffers must not be freed.
    const auto gradients =
        torch::autograd::grad(outputs, inputs, tangents, /*retain_graph=*/outer_history,
                              /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < gradients.size(); ++i) {
      outcome.gradients.push_back(observe("gradient of " + targets[i].name, gradients[i]));
    }
  } catch (const std::exception& error) {
    outcome.backward_error = error.what();
  }
}

[[noreturn]] void fail(const std::string& name, const std::string& found) {
  throw MismatchError(
      ErrorText{"the program of '" + name + "' to give the bits of the eager callable", found,
                "operators that are not deterministic differ by themselves (see "
                "at::globalContext().setDeterministicAlgorithms); otherwise please report this "
                "with the graph (Options::dump_dir)"});
}

void compare(const std::string& name, const Observed& eager, const Observed& program) {
  const auto check = [&](const std::string& difference) {
    if (difference.empty()) return;
    fail(name, eager.name + ", eager against program: " + difference);
  };
  if (eager.bits.defined() != program.bits.defined()) {
    check(eager.bits.defined() ? "only the program leaves its storage without memory"
                               : "only eager leaves its storage without memory");
  }
  check(bit_difference(eager.bits, program.bits));
  check(eager.metadata.difference(program.metadata));
  if (eager.requires_grad != program.requires_grad) {
    check(torch_compat::instead("requires_grad", program.requires_grad, eager.requires_grad));
  }
}

void compare(const std::string& name, const std::vector<Observed>& eager,
             const std::vector<Observed>& program) {
  AG_CHECK(eager.size() == program.size(), "tensors of two runs of one call");
  for (size_t i = 0; i < eager.size(); ++i) compare(name, eager[i], program[i]);
}

void compare(const std::string& name, const Outcome& eager, const Outcome& program) {
  if (auto difference = guards::host_difference("the result", eager.host, program.host);
      !difference.empty()) {
    fail(name, difference);
  }
  compare(name, eager.tensors, program.tensors);
  if (eager.backward_error.has_value() != program.backward_error.has_value()) {
    fail(name, eager.backward_error
                   ? "a backward that only eager refuses: " + *eager.backward_error
                   : "a backward that only the program refuses: " + *program.backward_error);
  }
  compare(name, eager.gradients, program.gradients);
}

// Tensors that the program may use besides the arguments: slots of the module, and lifted tensors.
std::vector<NamedTensor> held_tensors(const guards::Origin& origin, const Leaves& arguments) {
  std::vector<NamedTensor> held;
  std::unordered_set<const c10::TensorImpl*> seen;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) held.push_back({name, tensor});
  };
  for (const auto& slot : origin.guards.module()->slots()) add(slot.source.name, *slot.address);
  const auto primals = origin.guards.primals(arguments);
  const auto raw = origin.raw->unpack();
  for (size_t i = 0; i < primals.size(); ++i) {
    if (raw.inputs[i].source.kind == Source::Kind::anonymous) {
      add(fmt::format("closure tensor {}", i), primals[i]);
    }
  }
  return held;
}

// The default generators of the devices in use, and the generators that the callable passes to
// operators.
std::vector<NamedGenerator> generators_of(const guards::Origin& origin, const Leaves& arguments) {
  std::vector<NamedGenerator> generators;
  std::set<std::string> seen;
  const auto add_default = [&](c10::Device device) {
    if (!device.is_cpu() && !device.is_cuda()) return;
    const auto name = to_string(torch_compat::to_device(device));
    if (!seen.insert(name).second) return;
    generators.push_back({name, at::globalContext().defaultGenerator(device)});
  };
  add_default(at::kCPU);
  for (const auto& tensor : origin.guards.primals(arguments)) {
    if (tensor.defined()) add_default(tensor.device());
  }
  const auto raw = origin.raw->unpack();
  for (size_t i = 0; i < origin.tables.generators.size(); ++i) {
    const auto& generator = origin.tables.generators[i];
    if (generator.defined()) generators.push_back({raw.generators[i], generator});
  }
  return generators;
}

// One of the two runs.
Outcome run_trial(const Leaves& arguments, const std::vector<NamedTensor>& held,
                  const std::vector<NamedGenerator>& generators,
                  const std::function<Leaves(const Leaves&)>& run) {
  std::unordered_set<const c10::StorageImpl*> kept;
  for (const auto& [name, tensor] : held) kept.insert(tensor.storage().unsafeGetStorageImpl());
  const auto cloned = clone_arguments(arguments.tensors, kept);
  auto targets = cloned.targets;
  for (const auto& [name, tensor] : held) {
    if (tensor.requires_grad()) targets.push_back({name, tensor});
  }
  // Otherwise casts of parameters cached by the other run would be reused here.
  at::autocast::clear_cache();
  const auto leaves = run(Leaves{cloned.leaves, arguments.host});

  Outcome outcome;
  outcome.host = leaves.host;
  const auto add = [&](std::string name, const at::Tensor& tensor) {
    outcome.tensors.push_back(observe(std::move(name), tensor));
  };
  for (size_t i = 0; i < leaves.tensors.size(); ++i) {
    add(fmt::format("result {}", i), leaves.tensors[i]);
  }
  for (size_t i = 0; i < cloned.leaves.size(); ++i) {
    add(fmt::format("argument {} after the call", i), cloned.leaves[i]);
  }
  for (const auto& [name, tensor] : held) add(name + " after the call", tensor);
  // Eager's backward would read memory that was freed.
  const bool freed = std::ranges::any_of(outcome.tensors, [](const Observed& observed) {
    return observed.metadata.defined && !observed.bits.defined();
  });
  if (at::GradMode::is_enabled() && !freed) add_gradients(leaves.tensors, targets, outcome);
  for (const auto& [name, generator] : generators) {
    add("generator " + name, torch_compat::state_of(generator));
  }
  at::autocast::clear_cache();
  return outcome;
}

}  // namespace

void EagerCheck::run() const {
  const auto held = held_tensors(origin, arguments);
  const auto generators = generators_of(origin, arguments);
  const TrialState before(held, generators);
  const auto trial = [&](const std::function<Leaves(const Leaves&)>& body) {
    try {
      auto outcome = run_trial(arguments, held, generators, body);
      before.restore();
      return outcome;
    } catch (...) {
      before.restore();
      throw;
    }
  };
  const auto expected = trial(eager);
  compare(name, expected, trial(program));
}

}  // namespace antegrad::check
