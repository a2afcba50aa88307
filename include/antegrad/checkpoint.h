#pragma once

/// \file
/// ag::checkpoint: recomputes activations in the backward pass instead of keeping them.
///
///     auto y = antegrad::checkpoint([=](const at::Tensor& x) { return block->forward(x); }, x);
///
/// Results, gradients, hooks, generators and buffers equal those of `block->forward(x)`, bit for
/// bit. docs/checkpoint.md lists the few places where sums are associated otherwise, and what is
/// refused.

#include <antegrad/error.h>
#include <antegrad/recompute.h>
#include <antegrad/tree.h>

#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace antegrad {

struct CheckpointOptions {
  /// Decides about the results of an operator, given its name ("aten::mm.default"; an in-place
  /// operator has the name of its functional form). Called in compiled regions only. Eager code
  /// recomputes everything, to the same numbers.
  std::function<Recompute(std::string_view op)> policy;
  /// Your own generators, if the block draws from them without the dispatcher. Default generators,
  /// and those that operators receive, are found.
  std::vector<at::Generator> generators;
};

namespace detail {

/// Runs the block once more on leaves of arguments.
using RunAgain = std::function<Leaves(const Leaves& arguments)>;

/// During its lifetime, a capture on this thread tags what it records as part of a checkpoint.
/// Does nothing without a capture. `options` must outlive it.
class CapturedBlock {
 public:
  explicit CapturedBlock(const CheckpointOptions& options);
  ~CapturedBlock();
  CapturedBlock(const CapturedBlock&) = delete;
  CapturedBlock& operator=(const CapturedBlock&) = delete;

 private:
  void* tracer_ = nullptr;
  int32_t around_ = -1;
  const std::function<Recompute(std::string_view)>* policy_around_ = nullptr;
};

/// Whether a call of checkpoint() on this thread differs from a call of the function: grad mode is
/// on and no capture is running.
bool checkpoints_now();

/// `first` runs the block on the given arguments.
Leaves checkpoint(const CheckpointOptions& options, const Leaves& arguments,
                  const std::function<Leaves()>& first, RunAgain again);

template <class Fn, class... Args>
decltype(auto) call_block(Fn& fn, const Args&... args) {
  if constexpr (requires { fn->forward(args...); }) {
    return fn->forward(args...);
  } else {
    return fn(args...);
  }
}

}  // namespace detail

/// Calls fn(args...). Drops the activations after the call and recomputes them when the backward
/// of the block runs, with the same generator states, autocast state and buffers. In a compiled
/// region it is a tag on the recorded nodes, which the partitioner respects (docs/checkpoint.md).
///
/// `fn` is a callable or a module. Arguments and results are structures supported by
/// antegrad::tree. A copy of `fn`, made before the call, serves the backward pass. If `fn` cannot
/// be copied it is moved, and runs itself each time.
///
/// Throws what `fn` throws. If `fn` does something that cannot be recomputed (writes in place to
/// tensors that take part in autograd, returns views of outside tensors), its activations are
/// kept, with a warning. The backward pass throws BackwardError if something that `fn` read has
/// changed since, or if the recomputation gives another graph.
///
/// Thread-safe. The backward pass runs `fn` on the thread that evaluates the node.
template <class Fn, class... Args>
auto checkpoint(const CheckpointOptions& options, Fn&& fn, const Args&... args) {
  using Own = std::decay_t<Fn>;
  using Result = std::decay_t<decltype(detail::call_block(std::declval<Own&>(), args...))>;
  static_assert(!std::is_void_v<Result>, "antegrad: a checkpointed block returns its results");
  constexpr bool copies = std::is_copy_constructible_v<Own>;
  auto own = std::make_shared<Own>(std::forward<Fn>(fn));
  const auto run = [own](const auto&... values) -> Result {
    if constexpr (copies) {
      Own fresh = *own;
      return detail::call_block(fresh, values...);
    } else {
      return detail::call_block(*own, values...);
    }
  };
  if (!detail::checkpoints_now()) {
    const detail::CapturedBlock block(options);
    return run(args...);
  }
  Leaves arguments;
  (tree<Args>::flatten(args, arguments), ...);
  const auto first = [&] {
    Leaves results;
    tree<Result>::flatten(run(args...), results);
    return results;
  };
  auto again = [run](const Leaves& leaves) {
    LeafReader reader(leaves);
    const std::tuple<Args...> values{tree<Args>::unflatten(reader)...};
    Leaves results;
    tree<Result>::flatten(std::apply(run, values), results);
    return results;
  };
  const auto results = detail::checkpoint(options, arguments, first, std::move(again));
  LeafReader reader(results);
  return tree<Result>::unflatten(reader);
}

template <class Fn, class... Args>
requires(!std::is_same_v<std::decay_t<Fn>, CheckpointOptions>) auto checkpoint(
    Fn&& fn, const Args&... args) {
  return checkpoint(CheckpointOptions{}, std::forward<Fn>(fn), args...);
}

}  // namespace antegrad
