#pragma once

/// \file
/// What one writes inside a compiled callable where plain libtorch cannot be captured: host data,
/// gradients inside a function, code that needs data pointers. Outside of a capture each does the
/// plain thing, so that the same callable runs eagerly too. All functions may be called on any thread; those
/// inside a capture on the capturing one.

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace antegrad {

/// The tensor that `make` builds from host data (`torch::tensor(vector)`, `from_blob`), as a constant of
/// the program. During a capture `make` runs on real tensors, out of reach of the capture, and must
/// not use tensors of the callable. The audit compares the data; when it changes between calls, make
/// it an argument instead.
at::Tensor constant(const std::function<at::Tensor()>& make);
/// The same for values: a 1-D CPU tensor.
at::Tensor constant(const std::vector<float>& values);
at::Tensor constant(const std::vector<double>& values);
at::Tensor constant(const std::vector<int64_t>& values);

/// torch::autograd::grad that also finds parameters which the callable holds (inside a capture they
/// have stand-ins that only antegrad knows). Same arguments, results and errors.
std::vector<at::Tensor> grad(const std::vector<at::Tensor>& outputs,
                             const std::vector<at::Tensor>& inputs,
                             const std::vector<at::Tensor>& grad_outputs = {},
                             std::optional<bool> retain_graph = std::nullopt,
                             bool create_graph = false, bool allow_unused = false);

/// Code that libtorch's dispatcher does not see: it may read data pointers, call other libraries, take
/// any branch. One node of the program. A value; its functions run on every thread that calls the program or
/// runs its backward, on several at once.
struct Opaque {
  using Fn = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

  /// Name in graphs and reports; two calls with one name must mean the same computation.
  std::string name;
  /// Computes the outputs from the inputs; runs at every call, without autograd. Outputs must be fresh
  /// tensors with the metadata that `shapes` promised (checked), and inputs must not be written.
  Fn compute;
  /// Makes tensors with the outputs' sizes, strides, dtypes and devices from tensors that have the
  /// inputs' metadata and no data (meta tensors). Devices are taken from the first input. Empty: each
  /// output is like the input of the same position.
  Fn shapes;
  /// From the inputs followed by the gradients of the outputs (undefined where there is none) to the
  /// gradients of the inputs (undefined for none); empty: the outputs do not require grad.
  Fn backward;
  /// Says that the code is what this hash says, in every process: another computation must have another one. Empty:
  /// nothing is known of the code outside of this process, and ProgramReport::cache_bypass names the call.
  std::string cache_hash = {};
};

/// Calls `code` on `inputs`; in a capture, records the call. Thread-safe.
std::vector<at::Tensor> opaque(const Opaque& code, const std::vector<at::Tensor>& inputs);

/// Declares that a custom operator ("mylib::log") has effects besides its results: it is never dropped,
/// duplicated or moved past another such operator. Operators that return nothing and write nothing
/// are taken to have effects without this. Call it before the first capture that meets the operator.
/// Thread-safe.
void declare_effects(const std::string& op);

}  // namespace antegrad
