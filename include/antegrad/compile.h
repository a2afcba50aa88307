#pragma once

/// \file
/// ag::compile: captures a callable over tensors once, with its backward, and runs it as a
/// program.

#include <antegrad/config.h>
#include <antegrad/error.h>
#include <antegrad/options.h>
#include <antegrad/report.h>
#include <antegrad/tree.h>

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace torch::nn {
class Module;
}

namespace antegrad {

namespace detail {

/// A reference to the user's callable, with argument and result types erased. Does not own it. As
/// thread-safe as the callable.
/// `run` takes leaves, calls the callable and returns the leaves of its result. Its address
/// identifies the argument types.
/// `collect` frees what the callable left to a garbage collector: young objects, or `all`. Null in
/// languages without one.
struct BodyRef {
  void* callable;
  Leaves (*run)(void* callable, const Leaves& arguments);
  void (*collect)(bool all) = nullptr;
};

/// Host state that a user declared. Read for each call, on the calling thread, so it must be
/// thread-safe if calls are concurrent.
using HostGuard = std::function<std::vector<HostValue>()>;

/// Makes new values of tensors from the gradients of some of them, during a capture: pairs of a
/// tensor and its gradient, and the tensors of the arguments, to pairs of a tensor and its new
/// value.
using StepUpdate = std::function<std::vector<std::pair<at::Tensor, at::Tensor>>(
    const std::vector<std::pair<at::Tensor, at::Tensor>>& gradients,
    const std::vector<at::Tensor>& arguments)>;

/// The part of Compiled that is the same for every callable. Copies share state. Thread-safe,
/// except that add_guard() must not run concurrently with a call.
class CompiledFunction {
 public:
  /// `callable` keeps alive what the bodies of calls refer to. With `update`, a call is a whole
  /// step: its results have no history, and new values are written into the tensors that they are
  /// for.
  CompiledFunction(std::shared_ptr<void> callable, std::shared_ptr<const torch::nn::Module> module,
                   Options options, StepUpdate update = {});
  ~CompiledFunction();

  /// Runs the call by a program whose guards hold, and compiles one if there is none. Returns
  /// nothing if the call must run eagerly (counted). With `run` false it only compiles.
  std::optional<Leaves> call(const Leaves& arguments, const BodyRef& body, bool run);
  /// Counts a call that runs eagerly because of `error`, which is being handled, or throws it.
  /// Options::on_refusal decides.
  void refuse(const CaptureError& error);
  /// Drops all programs, since none has a value for the new guard.
  void add_guard(HostGuard guard);
  Report report() const;
  void save_graph(const std::string& file) const;
  std::string chrome_trace() const;
  int64_t frame() const;  ///< its number in structured traces
  void reset();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

template <class T>
std::shared_ptr<const torch::nn::Module> module_pointer(const T& model) {
  if constexpr (requires { model.ptr(); }) {
    return model.ptr();  // torch::nn::ModuleHolder
  } else {
    return model;
  }
}

}  // namespace detail

/// Host state that a guard may return: a bool, a number, an enumerator, a string, or a vector of
/// these.
template <class T>
concept HostState = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;
template <class T>
concept HostStates = HostState<T> ||
    (requires { typename T::value_type; } && HostState<typename T::value_type> &&
     std::is_same_v<T, std::vector<typename T::value_type>>);

/// The callable takes these arguments by value or const reference. A compiled callable does not
/// write into the structures of its arguments.
template <class Fn, class... Args>
concept TakesByValue = std::is_invocable_v<Fn&, const Args&...>;

/// A compiled callable. Call it like the callable itself. Copies share programs.
///
/// Thread-safe: calls, warmup(), report() and reset() may run concurrently, and backward may run
/// on any thread, also after this object is destroyed. The callable itself runs under a lock while
/// it is captured, audited or checked, and without a lock if a call runs eagerly.
///
/// These must not run concurrently with a call: guard(); destruction or assignment of this object
/// (copies are separate objects); destruction of what the callable refers to; and, for calls that
/// Options::check_against_eager checks, any other use of the tensors that the callable holds and
/// of the default generators. See docs/threads.md.
template <class Fn>
class Compiled {
 public:
  Compiled(std::shared_ptr<const torch::nn::Module> module, Fn fn, Options options)
      : fn_(std::make_shared<Fn>(std::move(fn))),
        function_(fn_, std::move(module), std::move(options)) {}

  /// Runs the program for these arguments. The first call with their shapes captures and compiles
  /// it. Structures are passed by value: changes that the callable makes to them are not visible
  /// to the caller, but in-place changes of tensors are. Throws CaptureError and its subclasses
  /// (unless Options::on_refusal is eager), HostStateError (Options::audit), MismatchError
  /// (Options::check_against_eager), and what the callable throws. After an exception everything
  /// is as it was before the call.
  template <class... Args>
  requires TakesByValue<Fn, Args...>
  auto operator()(const Args&... args) {
    using Result = std::decay_t<std::invoke_result_t<Fn&, const Args&...>>;
    auto leaves = function_.call(flatten(args...), body<Result, Args...>(), /*run=*/true);
    if (!leaves) return static_cast<Result>((*fn_)(args...));
    if constexpr (!std::is_void_v<Result>) {
      LeafReader reader(*leaves);
      return tree<Result>::unflatten(reader);
    }
  }

  /// Captures and compiles for these arguments and computes nothing. May run concurrently with
  /// calls.
  template <class... Args>
  requires TakesByValue<Fn, Args...>
  void warmup(const Args&... args) {
    using Result = std::decay_t<std::invoke_result_t<Fn&, const Args&...>>;
    function_.call(flatten(args...), body<Result, Args...>(), /*run=*/false);
  }

  /// Declares host state that the callable reads besides its arguments. `read` is called once per
  /// call. Another value selects or captures another program. Values are compared by bits, so NaN
  /// equals itself. There may be any number of guards; report() names them by number. Declare them
  /// before the first call: a later guard drops the existing programs. Must not run concurrently
  /// with a call. `read` must not change what it reads, and its exceptions pass through the call.
  template <class Read>
  requires HostStates<std::decay_t<std::invoke_result_t<Read&>>> Compiled& guard(Read read) {
    using State = std::decay_t<std::invoke_result_t<Read&>>;
    function_.add_guard([read = std::move(read)]() mutable {
      Leaves leaves;
      if constexpr (HostState<State>) {
        tree<State>::flatten(read(), leaves);
      } else {
        for (const auto& value : read()) tree<typename State::value_type>::flatten(value, leaves);
      }
      return std::move(leaves.host);
    });
    return *this;
  }

  /// Drops all programs, but keeps the declared guards. The next call captures again. Counters
  /// continue. May run concurrently with calls; running calls and their backwards finish with the
  /// program that they have.
  void reset() { function_.reset(); }
  /// A snapshot. Waits for a running capture. May run concurrently with calls.
  Report report() const { return function_.report(); }
  /// Writes the graph of the newest program with a record of its partition, for the `antegrad`
  /// command line (docs/command-line.md): explain, pareto, timeline, draw, replay. Throws
  /// InputError if there is no program yet or the file cannot be written.
  void save_graph(const std::string& file) const { function_.save_graph(file); }
  /// The compilation of each program, and a step of it by operators, as JSON that Perfetto and
  /// chrome://tracing open (docs/debugging.md). The step is as planned: its durations are
  /// estimates, or measured times that the plan was made with; inlined hooks are left out.
  std::string chrome_trace() const { return function_.chrome_trace(); }

 private:
  template <class... Args>
  static Leaves flatten(const Args&... args) {
    Leaves leaves;
    (tree<Args>::flatten(args, leaves), ...);
    return leaves;
  }

  template <class Result, class... Args>
  detail::BodyRef body() {
    return {fn_.get(), [](void* callable, const Leaves& arguments) {
              LeafReader reader(arguments);
              std::tuple<Args...> args{tree<Args>::unflatten(reader)...};
              Leaves leaves;
              if constexpr (std::is_void_v<Result>) {
                std::apply(*static_cast<Fn*>(callable), std::move(args));
              } else {
                const Result result = std::apply(*static_cast<Fn*>(callable), std::move(args));
                tree<Result>::flatten(result, leaves);
              }
              return leaves;
            }};
  }

  std::shared_ptr<Fn> fn_;
  detail::CompiledFunction function_;
};

/// A shared_ptr to a torch::nn::Module, or a module holder.
template <class T>
concept ModulePointer = requires(const T& model) {
  model->is_training();
};

/// Compiles `fn`. Capture finds the tensors that `fn` holds (captured parameters, buffers,
/// constants), and gradients flow to them as in eager mode. They are held weakly and recognised by
/// identity.
template <class Fn>
requires(!ModulePointer<std::decay_t<Fn>>) Compiled<std::decay_t<Fn>> compile(
    Fn&& fn, Options options = default_options()) {
  return {nullptr, std::forward<Fn>(fn), std::move(options)};
}

/// Compiles `fn`, which uses `model`. Parameters and buffers of `model` become sources by name.
/// Replaced parameters, moved modules, train() and eval() are noticed before each call. `model` is
/// kept alive.
template <ModulePointer Model, class Fn>
requires(!std::is_same_v<std::decay_t<Fn>, Options>) Compiled<std::decay_t<Fn>> compile(
    const Model& model, Fn&& fn, Options options = default_options()) {
  return {detail::module_pointer(model), std::forward<Fn>(fn), std::move(options)};
}

/// Compiles the module's own forward().
template <ModulePointer Model>
auto compile(const Model& model, Options options = default_options()) {
  return compile(
      model,
      [model = Model(model)](const auto&... args) mutable { return model->forward(args...); },
      std::move(options));
}

}  // namespace antegrad
