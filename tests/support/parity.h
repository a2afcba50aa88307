#pragma once

/// \file
/// Compiled and eager, compared bit for bit: training of a model, and single calls of a function.

#include <antegrad/antegrad.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <vector>

#include "capture/stand_in.h"
#include "support/bits.h"

namespace antegrad::testing {

/// A model, its loss on a batch, and its optimizer.
struct Trainee {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> loss;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const torch::nn::Module&)> optimizer;
};

struct Batch {
  at::Tensor x, y;
};

/// Trains two trainees of one factory side by side, one compiled. Expects in every step that loss,
/// gradients, parameters, buffers and generator state are equal bit for bit, that nothing ran
/// eagerly, and that no stand-in is alive. `make` must build the same model each time it is called
/// after the same manual_seed; `batch(i)` gives the batch of step i. Both are moved to `device`;
/// the optimizer is made after that.
void expect_training_parity(const std::function<Trainee()>& make,
                            const std::function<Batch(int)>& batch, int steps,
                            c10::Device device = at::kCPU);

using Function = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Calls `fn` eagerly and compiled, twice each, on clones of `inputs` from the same generator
/// state, and runs backward from all results that require grad with fixed random tangents. Expects
/// results, gradients, mutated inputs, requires_grad and generator states to be equal, and
/// eager_calls == 0. Returns the report for further checks.
Report expect_function_parity(const Function& fn, const std::vector<at::Tensor>& inputs);

/// The same for several calls, which need `programs` programs. They run in turn, twice.
Report expect_parity_of_calls(const Function& fn, const std::vector<std::vector<at::Tensor>>& calls,
                              size_t programs);

}  // namespace antegrad::testing
