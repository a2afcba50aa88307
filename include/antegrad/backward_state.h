#pragma once

/// \file
/// Hooks on tensors that a compiled callable computes, with code that each call brings along
/// (docs/backward-state.md).

#include <ATen/core/Tensor.h>
#include <antegrad/tree.h>

#include <functional>
#include <memory>
#include <string>

namespace antegrad {

/// Holds hooks by name. It is an argument of a compiled callable, which says where the hooks
/// belong; what they do is set before the backward runs, also after the call. A hook that the
/// callable registers with at::Tensor::register_hook is computed as part of the program, and its
/// effects on host state happen once, during the capture. One of a BackwardState is called in each
/// backward, with the state that was given to that call.
///
///     auto step = antegrad::compile([&](const BackwardState& state, const at::Tensor& x) {
///       const auto y = model->forward(x);
///       state.register_hook(y, "note");
///       return y.square().mean();
///     });
///     BackwardState state;
///     auto loss = step(state, x);
///     state.set("note", [&](const at::Tensor& g) { return norms.push_back(g.norm()), g; });
///     loss.backward();
///
/// Outside of a capture it does the same, with a plain hook. Copies are the same state. A graph
/// keeps the state of its call until it is freed. Thread-safe.
class BackwardState {
 public:
  /// Called with the gradient that arrives, in a backward pass on its thread. Returns the gradient
  /// to go on with, of the same sizes, type and device; undefined for the one that arrived. What it
  /// throws ends the pass. It may keep the gradient.
  using Hook = std::function<at::Tensor(const at::Tensor& gradient)>;

  /// Without hooks. Throws CaptureError inside a compiled callable.
  BackwardState();
  /// `find` is asked for hooks that were not set, when a backward needs one. Null for none.
  explicit BackwardState(std::function<Hook(const std::string& name)> find);

  /// What the hook `name` does from now on. Throws CaptureError inside a compiled callable.
  void set(const std::string& name, Hook hook) const;
  /// In each backward that reaches `tensor`, the hook `name` gets its gradient. If there is no such
  /// hook by then, the backward throws BackwardError. Throws CaptureError inside a compiled
  /// callable for a state that is not one of its arguments.
  void register_hook(const at::Tensor& tensor, const std::string& name) const;

 private:
  friend struct tree<BackwardState>;
  explicit BackwardState(at::Tensor handle) : handle_(std::move(handle)) {}

  at::Tensor handle_;  // one int64, the number of the state, which lives as long as its memory
};

template <>
struct tree<BackwardState> {
  static void flatten(const BackwardState& state, Leaves& leaves) {
    leaves.tensors.push_back(state.handle_);
  }
  static BackwardState unflatten(LeafReader& reader) { return BackwardState(reader.tensor()); }
};

}  // namespace antegrad
