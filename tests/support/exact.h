#pragma once

/// \file
/// Compares a function run eagerly and by a candidate (the compiler) in everything that its caller
/// can observe: values, strides, autograd state, alias relations, versions, gradients for many
/// tangents, generators, errors and when they are raised.
///
/// A case makes its world (arguments, closure tensors, modules) anew for each run, always the same.
/// An exam inspects the world after a call and writes its findings into a Record (exact_exams.h).
/// The records of eager and of the candidate must be equal.

#include <antegrad/antegrad.h>
#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace antegrad::testing {

using List = std::vector<at::Tensor>;

/// Everything that a call can access. Made by a factory, after manual_seed.
struct World {
  List inputs = {};  ///< the arguments
  List held = {};    ///< closure tensors, which the function takes from the world
  List others = {};  ///< watched, not used: bases of inputs, leaves behind non-leaf inputs
  std::shared_ptr<torch::nn::Module> module = nullptr;
  std::vector<at::Generator> generators = {};
  int64_t counter = 0;   ///< host state
  at::Tensor kept = {};  ///< a place where a function may keep a tensor; not compared
  std::function<std::string()> observe = {};  ///< other observable state after a call
};

/// A callable that is not bound to a world, with types of arguments and results erased.
class Step {
 public:
  virtual ~Step() = default;
  /// Calls on the inputs of a world, which the function can access.
  virtual Leaves call(World& world) = 0;
  virtual Report report() const = 0;
};

/// The function of a case: a callable of (World&, const Args&...), where `pack` makes the tuple of
/// arguments from the world's inputs.
class Body {
 public:
  /// A function of one list, or of the world and one list.
  template <class Fn>
  requires std::is_invocable_v<Fn&, const List&> Body(Fn fn)  // NOLINT: implicit, for tables
      : Body([fn](World& /*world*/, const List& inputs) { return fn(inputs); }) {}
  template <class Fn>
  requires std::is_invocable_v<Fn&, World&, const List&> Body(
      Fn fn)  // NOLINT: implicit, for tables
      : Body([](const World& world) { return std::tuple(world.inputs); }, std::move(fn)) {}

  template <class Pack, class Fn>
  Body(Pack pack, Fn fn)
      : eager_([pack, fn] { return std::make_unique<EagerStep<Pack, Fn>>(pack, fn); }),
        compiled_([pack, fn](const std::shared_ptr<torch::nn::Module>& module,
                             const Options& options) -> std::unique_ptr<Step> {
          const auto current = std::make_shared<World*>(nullptr);
          auto bound = [current, fn](const auto&... args) { return fn(**current, args...); };
          if (module) return compiled(pack, current, antegrad::compile(module, bound, options));
          return compiled(pack, current, antegrad::compile(bound, options));
        }) {}

  std::unique_ptr<Step> eager() const { return eager_(); }
  std::unique_ptr<Step> compiled(const std::shared_ptr<torch::nn::Module>& module,
                                 const Options& options) const {
    return compiled_(module, options);
  }

 private:
  template <class Pack, class Fn>
  struct EagerStep final : Step {
    EagerStep(Pack p, Fn f) : pack(std::move(p)), fn(std::move(f)) {}
    Leaves call(World& world) override {
      Leaves leaves;
      const auto arguments = pack(std::as_const(world));
      std::apply(
          [&](const auto&... args) {
            using Result = decltype(fn(world, args...));
            if constexpr (std::is_void_v<Result>) {
              fn(world, args...);
            } else {
              const Result result = fn(world, args...);
              tree<Result>::flatten(result, leaves);
            }
          },
          arguments);
      return leaves;
    }
    Report report() const override { return {}; }
    Pack pack;
    Fn fn;
  };

  template <class Pack, class Compiled>
  struct CompiledStep final : Step {
    CompiledStep(Pack p, std::shared_ptr<World*> c, Compiled s)
        : pack(std::move(p)), current(std::move(c)), step(std::move(s)) {}
    Leaves call(World& world) override {
      *current = &world;
      Leaves leaves;
      const auto arguments = pack(std::as_const(world));
      std::apply(
          [&](const auto&... args) {
            using Result = decltype(step(args...));
            if constexpr (std::is_void_v<Result>) {
              step(args...);
            } else {
              const Result result = step(args...);
              tree<Result>::flatten(result, leaves);
            }
          },
          arguments);
      return leaves;
    }
    Report report() const override { return step.report(); }
    Pack pack;
    std::shared_ptr<World*> current;
    Compiled step;
  };

  template <class Pack, class Compiled>
  static std::unique_ptr<Step> compiled(Pack pack, std::shared_ptr<World*> current, Compiled step) {
    return std::make_unique<CompiledStep<Pack, Compiled>>(std::move(pack), std::move(current),
                                                          std::move(step));
  }

  std::function<std::unique_ptr<Step>()> eager_;
  std::function<std::unique_ptr<Step>(const std::shared_ptr<torch::nn::Module>&, const Options&)>
      compiled_;
};

/// The expected outcome of a case.
struct Expectation {
  enum class Kind : uint8_t {
    equal,            ///< the candidate equals eager
    call_throws,      ///< equal, and the call throws
    backward_throws,  ///< equal, and the backward with all tangents throws
    refused,          ///< a typed error from one of the first calls, with the world unchanged
  };
  Kind kind = Kind::equal;
  std::string words;  ///< part of the error's message
  std::function<bool(const std::exception&)> is_type;
  bool option_eager = true;  ///< for refused: with OnRefusal::eager the call equals eager
};

inline Expectation equal() { return {}; }
inline Expectation call_throws(std::string words) {
  return {Expectation::Kind::call_throws, std::move(words), {}};
}
inline Expectation backward_throws(std::string words) {
  return {Expectation::Kind::backward_throws, std::move(words), {}};
}
template <class E>
Expectation refused(std::string words) {
  return {Expectation::Kind::refused, std::move(words),
          [](const std::exception& error) { return dynamic_cast<const E*>(&error) != nullptr; },
          std::is_base_of_v<CaptureError, E>};
}

/// See Case.
struct Tolerated {
  std::string words;
  std::string reason;
};

using Around = std::function<void(const std::function<void()>& call)>;

struct Case {
  std::string name;
  std::function<World()> world;
  Body body;
  Expectation expect = {};
  /// Runs the call under some ambient state. Backward passes run outside of it.
  Around around = {};
  /// Runs before each call, counted from 0, to change state between calls.
  std::function<void(World& world, int64_t call)> between = {};
  /// Tensors of the world (by name: "input 0") whose gradients a region cannot give, since it wrote
  /// them and used them further. Asking for one must raise a BackwardError and change nothing.
  std::vector<std::string> inner = {};
  /// The reason why gradients may differ by rounding (also in docs/accuracy.md).
  std::string rounding = {};
  /// Known differences, by words of their lines, with reasons. A difference that is not found is an
  /// error.
  std::vector<Tolerated> tolerated = {};
  std::string category = {};
};
using Cases = std::vector<Case>;

/// The number of comparisons in which the candidate differed from eager in an acceptable way.
struct Leniencies {
  /// Eager's backward throws, because a saved value was written or freed; the candidate returns the
  /// gradient for the values at the call (compared with eager without the write).
  int64_t values_of_the_call = 0;
  /// The backward recomputes from an argument that was written since, and raises an error.
  int64_t read_again = 0;
  /// Gradients inside and outside of the region were added in another order.
  int64_t order_of_sums = 0;
  int64_t rounding = 0;   ///< see Case
  int64_t tolerated = 0;  ///< see Case

  Leniencies& operator+=(const Leniencies& other);
};

/// How the candidate makes a callable for a world.
struct Candidate {
  std::function<std::unique_ptr<Step>(const Case&, const World&, const Options&)> make;
  /// Whether it refuses the cases marked as refused. Otherwise these have to be equal too.
  bool refuses = false;
};

/// The compiler.
Candidate compiler();
/// The function of the case itself, or another one. Shows that cases are valid and that the
/// comparison detects differences.
Candidate plain();
Candidate plain(Body other);

/// All differences of the candidate from eager, one line each; empty if equal, or refused as
/// expected. Also reports faults of the case itself (eager throws unexpectedly). At most a dozen
/// lines, unless all are requested. Counts leniencies in `used`.
std::vector<std::string> differences(const Case& c, const Candidate& candidate,
                                     bool all_lines = false, Leniencies* used = nullptr);

}  // namespace antegrad::testing
