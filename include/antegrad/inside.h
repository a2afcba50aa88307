#pragma once

/// \file
/// Functions to call inside a compiled callable where plain libtorch cannot be captured: host
/// data, gradients inside a function, code that needs data pointers. Outside of a capture each
/// does the plain thing, so the same callable runs eagerly too. All functions may be called on any
/// thread; inside a capture, on the capturing thread.

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace antegrad {

/// The tensor that `make` builds from host data (`torch::tensor(vector)`, `from_blob`), as a
/// constant of the program. During a capture `make` runs on real tensors, outside of the capture,
/// and must not use tensors of the callable. The audit compares the data. If the data change
/// between calls, make the tensor an argument.
at::Tensor constant(const std::function<at::Tensor()>& make);
/// The same for values: a 1-D CPU tensor.
at::Tensor constant(const std::vector<float>& values);
at::Tensor constant(const std::vector<double>& values);
at::Tensor constant(const std::vector<int64_t>& values);

/// torch::autograd::grad that also finds parameters held by the callable. Inside a capture only
/// antegrad knows their stand-ins. Same arguments, results and errors.
std::vector<at::Tensor> grad(const std::vector<at::Tensor>& outputs,
                             const std::vector<at::Tensor>& inputs,
                             const std::vector<at::Tensor>& grad_outputs = {},
                             std::optional<bool> retain_graph = std::nullopt,
                             bool create_graph = false, bool allow_unused = false);

/// Code that libtorch's dispatcher does not see. It may read data pointers, call other libraries
/// and take any branch. It is one node of the program. A value. Its functions run on every thread
/// that calls the program or runs its backward, possibly several at once.
struct Opaque {
  using Fn = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

  /// Name in graphs and reports. Two calls with the same name must mean the same computation.
  std::string name;
  /// Computes the outputs from the inputs. Runs at every call, without autograd. Outputs must be
  /// fresh tensors with the metadata that `shapes` returned (checked). Inputs must not be written.
  Fn compute;
  /// Makes tensors with the outputs' sizes, strides, dtypes and devices from tensors with the
  /// inputs' metadata and no data (meta tensors). Devices are taken from the first input. If
  /// empty, each output is like the input at the same position.
  Fn shapes;
  /// Computes the gradients of the inputs (undefined for none) from the inputs followed by the
  /// gradients of the outputs (undefined if there is none). If empty, the outputs do not require
  /// grad.
  Fn backward;
  /// States that the code is what this hash says, in every process. Another computation must have
  /// another hash. If empty, nothing is known of the code in other processes, and
  /// ProgramReport::cache_bypass names the call.
  std::string cache_hash = {};
};

/// Calls `code` on `inputs`. In a capture, records the call. Thread-safe.
std::vector<at::Tensor> opaque(const Opaque& code, const std::vector<at::Tensor>& inputs);

/// Declares that a custom operator ("mylib::log") has effects besides its results. It is never
/// dropped, duplicated or moved past another such operator. Operators that return nothing and
/// write nothing are assumed to have effects without this. Call it before the first capture that
/// uses the operator. Thread-safe.
void declare_effects(const std::string& op);

}  // namespace antegrad
