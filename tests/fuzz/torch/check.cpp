#include "check.h"

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <antegrad/compiled_backward.h>
#include <antegrad/error.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "capture/stand_in.h"
#include "compare.h"
#include "leaks.h"
#include "observation.h"
#include "support/exact_hooks.h"
#include "support/switches.h"

namespace antegrad::fuzz {

using Kind = Verdict::Kind;

namespace {

// An eighth of the programs have generated kernels; all with ANTEGRAD_FUZZ_LOWERED.
Lowering lowering_of(uint64_t seed) {
  std::mt19937_64 random(seed ^ 0xa0761d6478bd642fU);
  const bool lowered = random() % 8 == 0 || std::getenv("ANTEGRAD_FUZZ_LOWERED") != nullptr;
  return lowered ? Lowering::exact : Lowering::off;
}

// Random options of the partition, or a memory budget, determined by the seed. A quarter of the
// programs uses the defaults.
Options options_of(uint64_t seed) {
  auto options = Options()
                     .with_name("fuzz" + std::to_string(seed))
                     .with_verify_graphs(true)
                     .with_lowering(lowering_of(seed))
                     .with_keep_slow_kernels(true)
                     .with_max_programs(32);
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15U);
  if (random() % 4 == 0) return options;
  if (random() % 3 == 0) {
    return options.with_memory_share(static_cast<double>(random() % 5) / 4)
        .with_budget_profile(BudgetProfile::off);
  }
  if (random() % 4 == 0) return options.with_partition(Partitioner::priced);
  // From all as they are by default to a coin for each.
  const auto changed = random() % 3;
  MinCutOptions min_cut;
  for (const auto& [name, value] : testing::switches(min_cut)) {
    if (random() % 4 < changed) apply_setting(min_cut, name + (value ? "=false" : "=true"));
  }
  if (random() % 4 == 0) {
    min_cut.activation_memory_budget = static_cast<double>(random() % 4) / 4;
    if (random() % 2 == 0) min_cut.activation_memory_budget_solver = BudgetSolver::greedy;
  }
  if (changed > 0) min_cut.max_dist_from_bw = static_cast<int32_t>(random() % 6);
  return options.with_min_cut(std::move(min_cut));
}

// Random lossless hooks on saved tensors, determined by the seed; null for half of the programs.
const Hooks* hooks_of(uint64_t seed, Options& options) {
  std::mt19937_64 random(seed ^ 0xd1b54a32d192ed03U);
  if (random() % 2 == 0) return nullptr;
  constexpr HookFilter kFilters[] = {HookFilter::donated, HookFilter::no_static, HookFilter::all};
  options.saved_tensors_hooks_filtering_mode = kFilters[random() % std::size(kFilters)];
  const auto& all = testing::exact_hooks();
  return &all[random() % all.size()];
}

// A compiled callable under hooks. If they do not fit into a memory budget, it is compiled with the
// sufficient budget that the error names.
class Hooked {
 public:
  Hooked(Callable callable, uint64_t seed)
      : callable_(std::move(callable)),
        options_(options_of(seed)),
        hooks_(hooks_of(seed, options_)),
        step_(antegrad::compile(Callable(callable_), options_)) {}

  List call(const List& arguments, const std::vector<int64_t>& flags) {
    std::optional<SavedTensorHooks> scope;
    if (hooks_ == nullptr) return checked(arguments, flags);
    scope.emplace(*hooks_);
    try {
      return checked(arguments, flags);
    } catch (const BudgetError& error) {
      eager_calls_ += step_.report().eager_calls;
      options_.with_memory_budget(error.smallest_bytes());
      step_ = antegrad::compile(Callable(callable_), options_);
      return checked(arguments, flags);
    }
  }
  int64_t eager_calls() const { return eager_calls_ + step_.report().eager_calls; }

 private:
  /// A call, after which generated kernels must be there: code that the C compiler refuses is a
  /// mistake, although the library's kernels then run instead.
  List checked(const List& arguments, const std::vector<int64_t>& flags) {
    List results = step_(arguments, flags);
    for (const auto& program : step_.report().programs) {
      AG_CHECK(program.lowering_failure.empty(), program.lowering_failure);
    }
    return results;
  }

  Callable callable_;
  Options options_;
  const Hooks* hooks_;
  Compiled<Callable> step_;
  int64_t eager_calls_ = 0;
};

}  // namespace

Subject compiled(const Program& program, const Callable& callable) {
  auto step = std::make_shared<Hooked>(callable, program.seed);
  return {[step](const List& arguments, const std::vector<int64_t>& flags) {
            return step->call(arguments, flags);
          },
          [step] { return step->eager_calls(); }};
}

Subject with_compiled_backward(const Program& program, const Callable& callable) {
  auto options = Options()
                     .with_name("fuzz" + std::to_string(program.seed))
                     .with_verify_graphs(true)
                     .with_lowering(lowering_of(program.seed))
                     .with_keep_slow_kernels(true);
  const auto scope = std::make_shared<CompiledBackward>(options);
  return {callable, [scope] {
            const auto report = scope->report();
            backward_nodes().all += report.nodes;
            backward_nodes().compiled += report.nodes_compiled;
            int64_t nodes = 0;
            for (const auto& [reason, count] : report.eager_reasons) {
              // Of masks, whose number of elements decides sizes.
              if (reason.find("needs the data of a tensor") == reason.npos) nodes += count;
            }
            return nodes;
          }};
}

Subject compiled_with_compiled_backward(const Program& program, const Callable& callable) {
  const auto scope = std::make_shared<CompiledBackward>(
      Options().with_verify_graphs(true).with_lowering(lowering_of(program.seed)));
  auto subject = compiled(program, callable);
  subject.eager_calls = [scope, calls = std::move(subject.eager_calls)] {
    backward_regions() += static_cast<int64_t>(scope->report().regions.size());
    return calls();
  };
  return subject;
}

int64_t& backward_regions() {
  static int64_t regions = 0;
  return regions;
}

namespace {

// Whether the gradients of a sum depend on the order in which results are added
// (docs/accuracy.md).
bool adds_in_another_order(const at::Tensor& result, const List& arguments) {
  return result.is_view() || std::ranges::any_of(arguments, [&](const at::Tensor& argument) {
           return argument.is_same(result);
         });
}

// Gradients of the sum of the floating-point results, where some argument has one. As copies: it is
// chance whether a gradient is a view.
Callable with_gradients(Callable callable) {
  return
      [callable = std::move(callable)](const List& arguments, const std::vector<int64_t>& flags) {
        auto results = callable(arguments, flags);
        if (!at::GradMode::is_enabled()) return results;
        at::Tensor sum;
        for (const auto& result : results) {
          if (!result.defined() || !result.requires_grad() || !result.is_floating_point()) continue;
          if (adds_in_another_order(result, arguments)) continue;
          const auto part = result.sum().to(at::kDouble);
          sum = sum.defined() ? sum + part : part;
        }
        List variables;
        for (const auto& argument : arguments) {
          const bool has_own = argument.defined() && argument.requires_grad() &&
                               argument.is_floating_point() && argument.is_leaf();
          if (has_own) variables.push_back(argument);
        }
        if (!sum.defined() || variables.empty()) return results;
        const auto gradients = torch::autograd::grad({sum}, variables, {}, /*retain_graph=*/true,
                                                     /*create_graph=*/true,
                                                     /*allow_unused=*/true);
        for (const auto& gradient : gradients) {
          if (gradient.defined()) results.push_back(gradient.clone(at::MemoryFormat::Contiguous));
        }
        return results;
      };
}

}  // namespace

Subject compiled_for_derivatives(const Program& program, const Callable& callable) {
  const auto step = std::make_shared<Compiled<Callable>>(
      antegrad::compile(Callable(callable), Options()
                                                .with_name("fuzz" + std::to_string(program.seed))
                                                .with_verify_graphs(true)
                                                .with_lowering(lowering_of(program.seed))
                                                .with_keep_slow_kernels(true)
                                                .with_higher_derivatives(true)));
  return {[step](const List& arguments, const std::vector<int64_t>& flags) {
            return (*step)(arguments, flags);
          },
          [step] { return step->report().eager_calls; }, with_gradients};
}

BackwardNodes& backward_nodes() {
  static BackwardNodes nodes;
  return nodes;
}

// Tensors that a callable holds. Released at the end: a callable that holds a tensor to which it
// gave history is kept alive by that history (docs/accuracy.md, known limits).
class Held {
 public:
  explicit Held(const World& world) : tensors_(std::make_shared<List>(world.closures())) {}
  ~Held() { tensors_->clear(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  std::shared_ptr<const List> tensors() const { return tensors_; }

 private:
  std::shared_ptr<List> tensors_;
};

// What gradients of gradients may differ in (docs/higher-derivatives.md): signs of zeros.
void allow_signs_of_zeros(Observation& seen) {
  for (auto& fact : seen.facts) {
    const auto& value = fact.value;
    if (value.defined() && (value.is_floating_point() || value.is_complex()))
      fact.value = value + 0;
  }
}

// `.grad` is a sum over calls: once a call makes it inexact, it stays so.
class Accumulated {
 public:
  void carry(Observation& seen) {
    for (auto& fact : seen.facts) {
      if (!fact.what.starts_with(kAccumulated)) continue;
      auto& match = match_[fact.what];
      match = fact.match = std::max(match, fact.match);
    }
  }

 private:
  std::map<std::string, Match> match_;
};

Verdict check(const Program& program, const Compile& compile) {
  World eager_world(program), found_world(program);
  const Held held_in_eager(eager_world), held(found_world);
  const auto callable_of = [&](const Held& tensors) -> Callable {
    return [&program, closures = tensors.tensors()](const List& arguments,
                                                    const std::vector<int64_t>& flags) {
      return run(program, arguments, *closures, flags);
    };
  };
  const auto stand_ins = capture::live_stand_ins();
  Accumulated accumulated;
  bool approximate = false, lenient = false, coarse = false;
  {
    const auto subject = compile(program, callable_of(held));
    const auto around =
        subject.around ? subject.around : std::function([](Callable it) { return it; });
    const auto call = around(subject.call);
    const auto eager_callable = around(callable_of(held_in_eager));
    for (size_t i = 0; i < program.calls.size(); ++i) {
      auto eager = [&] {
        [[maybe_unused]] const NotOurLeaks in_eager;
        const EagerBackward as_libtorch_does;
        return observe(program, eager_world, eager_callable, i);
      }();
      auto found = observe(program, found_world, call, i);
      if (subject.around) {
        allow_signs_of_zeros(eager);
        allow_signs_of_zeros(found);
      }
      accumulated.carry(eager);
      if (needs_nothing_that_is_gone(eager, found)) {
        lenient = true;
        break;
      }
      if (comes_by_what_is_gone(eager, found, i)) {
        coarse = true;
        break;
      }
      if (eager.raised != Raised::nothing || found.raised != Raised::nothing) {
        auto verdict = compare_errors(eager, found);
        // What is done around a call may be refused when the call has had its effects.
        if (verdict && subject.around && verdict->kind == Kind::trace)
          verdict->kind = Kind::refused;
        if (verdict) return *verdict;
        break;
      }
      if (auto verdict = first_difference(eager, found, approximate)) {
        verdict->detail = "call " + std::to_string(i) + ", " + verdict->detail;
        return *verdict;
      }
    }
    if (subject.eager_calls() != 0) return {Kind::eager_call, "a call ran eagerly"};
  }
  if (const auto more = capture::live_stand_ins() - stand_ins; more > 0) {
    return {Kind::stand_ins, std::to_string(more) + " more stand-ins are alive"};
  }
  return {Kind::same, "", approximate, lenient, coarse};
}

}  // namespace antegrad::fuzz
