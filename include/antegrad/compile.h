#pragma once

/// \file
/// ag::compile: a callable over tensors, captured once with its backward and run as a program.

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

/// The user's callable with its argument and result types erased; refers to it, does not own it. As
/// thread-safe as the callable.
/// `run` takes leaves, calls the callable and returns its result's leaves. Its address tells
/// argument types apart.
/// `collect` frees what the callable left to a garbage collector, what is young or `all`; null where its language has
/// none.
struct BodyRef {
  void* callable;
  Leaves (*run)(void* callable, const Leaves& arguments);
  void (*collect)(bool all) = nullptr;
};

/// Host state that a user declared, read anew for each call, on the thread that calls: it must bear several
/// at once where calls are.
using HostGuard = std::function<std::vector<HostValue>()>;

/// What Compiled does for every callable alike. Copies share state. Thread-safe, but add_guard() must
/// not run beside a call.
class CompiledFunction {
 public:
  /// `callable` keeps alive what the bodies of calls refer to.
  CompiledFunction(std::shared_ptr<void> callable, std::shared_ptr<const torch::nn::Module> module,
                   Options options);
  ~CompiledFunction();

  /// Runs the call by a program that fits, compiling one if none does. Nothing when the call must run
  /// eagerly (counted). `run` false compiles only.
  std::optional<Leaves> call(const Leaves& arguments, const BodyRef& body, bool run);
  /// Counts a call that runs eagerly because of `error`, which is being handled, or throws it:
  /// Options::on_refusal decides.
  void refuse(const CaptureError& error);
  /// Drops all programs: none knows the new guard's value.
  void add_guard(HostGuard guard);
  Report report() const;
  void save_graph(const std::string& file) const;
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

/// Host state that a guard may return: a bool, a number, an enumerator, a string, or a vector of these.
template <class T>
concept HostState = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;
template <class T>
concept HostStates = HostState<T> ||
    (requires { typename T::value_type; } && HostState<typename T::value_type> &&
     std::is_same_v<T, std::vector<typename T::value_type>>);

/// The callable takes these arguments by value or const reference; a compiled callable does not write
/// into its arguments' structures.
template <class Fn, class... Args>
concept TakesByValue = std::is_invocable_v<Fn&, const Args&...>;

/// A compiled callable; call it like the callable itself. Copies share programs.
///
/// Thread-safe: calls, warmup(), report() and reset() may run on several threads at once, and backward on
/// any thread, also after this object died. The callable itself runs under a lock when it is captured, audited
/// or checked, without one when a call runs eagerly. Must not run beside a call: guard(), the destruction
/// or assignment of this very object (copies are objects of their own), the destruction of what the
/// callable refers to, and, for the calls that Options::check_against_eager names, any other use of the
/// tensors that the callable holds and of the default generators. See docs/threads.md.
template <class Fn>
class Compiled {
 public:
  Compiled(std::shared_ptr<const torch::nn::Module> module, Fn fn, Options options)
      : fn_(std::make_shared<Fn>(std::move(fn))),
        function_(fn_, std::move(module), std::move(options)) {}

  /// Runs the program for these arguments, captured and compiled on the first call with their shapes.
  /// Structures are passed by value: changes that the callable makes to them are not seen outside;
  /// in-place changes of tensors are. Throws CaptureError and its kinds (unless Options::on_refusal
  /// is eager), HostStateError (Options::audit), MismatchError (Options::check_against_eager), and
  /// what the callable throws; then everything is as it was before the call.
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

  /// Captures and compiles for these arguments without running anything real. May run beside calls.
  template <class... Args>
  requires TakesByValue<Fn, Args...>
  void warmup(const Args&... args) {
    using Result = std::decay_t<std::invoke_result_t<Fn&, const Args&...>>;
    function_.call(flatten(args...), body<Result, Args...>(), /*run=*/false);
  }

  /// Declares host state that the callable reads besides its arguments: `read` is called once for each
  /// call, and another value selects or captures another program (compared by bits: NaN equals
  /// itself). Any number of guards; report() names them by number. Declare them before the first call:
  /// a guard that is added later drops the programs that exist. Must not run beside a call on another
  /// thread; `read` must not change what it reads, and what it throws passes through the call.
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

  /// Forgets all programs, not the declared guards; the next call captures again. Counters go on. May run
  /// beside calls; those that have begun end with the program that they have, and so do their backwards.
  void reset() { function_.reset(); }
  /// A snapshot; waits for a capture that runs. May run beside calls.
  Report report() const { return function_.report(); }
  /// Writes the graph of the newest program with a record of how it was partitioned, for the `antegrad` command line
  /// (docs/command-line.md): explain, pareto, timeline, draw, replay. Throws InputError when there is no program
  /// yet and when the file cannot be written.
  void save_graph(const std::string& file) const { function_.save_graph(file); }

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

/// Compiles `fn`. Tensors that it holds (captured parameters, buffers, constants) are found when it
/// is captured; gradients flow to them as in eager. They are held weakly and recognised by identity.
template <class Fn>
requires(!ModulePointer<std::decay_t<Fn>>) Compiled<std::decay_t<Fn>> compile(
    Fn&& fn, Options options = default_options()) {
  return {nullptr, std::forward<Fn>(fn), std::move(options)};
}

/// Compiles `fn`, which uses `model`. Its slots become sources by name, and replaced parameters, moved
/// modules, train() and eval() are noticed before each call. `model` is kept alive.
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
