#include "generate.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <memory>

#include "leaks.h"
#include "world.h"

namespace antegrad::fuzz {
namespace {

constexpr int64_t kMostElements = 200;
constexpr double kLargest = 1000;
constexpr int kSizedCalls = 5;
constexpr int64_t kMostElementsOfSized = 5000;

// The frequency of each family of statements.
constexpr std::pair<Family, double> kWeights[] = {
    {Family::unary, 10},    {Family::binary, 12},
    {Family::scalar, 7},    {Family::cast, 4},
    {Family::reduction, 7}, {Family::cumulative, 2},
    {Family::matmul, 7},    {Family::layer, 8},
    {Family::loss, 5},      {Family::view, 16},
    {Family::indexing, 6},  {Family::join, 5},
    {Family::sort, 3},      {Family::where, 4},
    {Family::random, 5},    {Family::complex, 2},
    {Family::host, 4},      {Family::detach, 3},
    {Family::in_place, 18}, {Family::in_place_metadata, 2},
    {Family::data, 3},
};

bool tame(const at::Tensor& t) {
  if (t.numel() > kMostElements) return false;
  if (t.numel() == 0 || !(t.is_floating_point() || t.scalar_type() == at::kLong)) return true;
  return (t.detach().to(at::kDouble).abs() < kLargest).all().item<bool>();
}

class Generator {
 public:
  Generator(uint64_t seed, bool sized) : random_(seed), sized_(sized) { program_.seed = seed; }

  Program make() {
    make_inputs();
    choose_flags();
    rebuild();
    const auto statements = integer(3, 14);
    for (int tries = 0; tries < 80 && static_cast<int64_t>(program_.body.size()) < statements;
         ++tries) {
      if (!add_statement()) break;
    }
    choose_results();
    if (sized_) {
      choose_sized_calls();
    } else {
      choose_calls();
    }
    return std::move(program_);
  }

 private:
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes(static_cast<size_t>(chance(0.15) ? 0 : integer(1, 4)));
    for (auto& size : sizes) size = chance(0.01) ? 0 : integer(1, 4);
    return sizes;
  }

  Input fresh_input() {
    Input input;
    input.seed = random_();
    const auto kind = integer(0, 99);
    input.dtype = kind < 68   ? at::kFloat
                  : kind < 78 ? at::kDouble
                  : kind < 84 ? at::kBFloat16
                  : kind < 94 ? at::kLong
                  : kind < 99 ? at::kBool
                              : at::kComplexFloat;
    input.sizes = shape_;
    if (chance(0.25)) {
      input.sizes = shape();
    } else if (chance(0.3)) {
      for (auto& size : input.sizes) {
        if (chance(0.4)) size = 1;
      }
      if (!input.sizes.empty() && chance(0.5)) input.sizes.erase(input.sizes.begin());
    }
    if (input.dtype == at::kLong && chance(0.6)) input.sizes = {integer(1, 4)};
    if (chance(0.25)) input.layout = static_cast<Input::Layout>(integer(1, 4));
    if (at::isFloatingType(input.dtype) || at::isComplexType(input.dtype)) {
      const auto grad = integer(0, 9);
      input.grad = grad < 4   ? Input::Grad::leaf
                   : grad < 6 ? Input::Grad::non_leaf
                              : Input::Grad::none;
    }
    return input;
  }

  // Makes an input share memory with an earlier one, if possible.
  void relate(Input& input, bool argument) {
    std::vector<Var> earlier;
    for (size_t i = 0; i < program_.closures.size(); ++i) {
      earlier.push_back({Var::Kind::closure, static_cast<int>(i)});
    }
    for (size_t i = 0; argument && i < program_.arguments.size(); ++i) {
      earlier.push_back({Var::Kind::argument, static_cast<int>(i)});
    }
    if (earlier.empty()) return;
    input.of = earlier[integer(0, static_cast<int64_t>(earlier.size()) - 1)];
    input.relation = static_cast<Input::Relation>(integer(1, 6));
  }

  bool can_be_made() const {
    try {
      World world(program_);
      world.begin_call(0);
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  }

  void make_inputs() {
    shape_ = shape();
    const auto add = [&](std::vector<Input>& list, bool argument) {
      auto input = fresh_input();
      relate_some(input, argument);
      list.push_back(input);
      if (can_be_made()) return;
      list.back().relation = Input::Relation::fresh;
    };
    for (auto left = integer(0, 3); left > 0; --left) add(program_.closures, false);
    for (auto left = integer(1, 4); left > 0; --left) add(program_.arguments, true);
  }
  void relate_some(Input& input, bool argument) {
    if (chance(0.15)) relate(input, argument);
  }

  void choose_flags() {
    for (int i = 0; i < 2; ++i) flags_.push_back(integer(0, 2));
  }

  // Runs the program so far from the start.
  void rebuild() {
    torch::manual_seed(program_.seed);
    world_ = std::make_unique<World>(program_);
    world_->begin_call(0);
    interpreter_ = std::make_unique<Interpreter>(world_->arguments(), world_->closures(), flags_);
    pool_.clear();
    add_inputs(Var::Kind::closure, world_->closures());
    add_inputs(Var::Kind::argument, world_->arguments());
    for (const auto& statement : program_.body) {
      interpreter_->run(statement);
      add_made(statement);
    }
  }
  void add_inputs(Var::Kind kind, const List& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      pool_.push_back({{kind, static_cast<int>(i)}, tensors[i]});
    }
  }
  void add_made(const Statement& statement) {
    for (const int t : statement.makes) {
      const Var var{Var::Kind::temporary, t};
      pool_.push_back({var, interpreter_->at(var)});
    }
  }

  const Operation& choose_operation() {
    if (sized_ && chance(0.15)) {
      const auto all = size_operations();
      return all[integer(0, static_cast<int64_t>(all.size()) - 1)];
    }
    double total = 0;
    for (const auto& [_, weight] : kWeights) total += weight;
    auto at = std::uniform_real_distribution<double>(0, total)(random_);
    auto family = Family::unary;
    for (const auto& [f, weight] : kWeights) {
      family = f;
      if ((at -= weight) < 0) break;
    }
    std::vector<const Operation*> found;
    for (const auto& operation : operations()) {
      if (operation.family == family) found.push_back(&operation);
    }
    return *found[integer(0, static_cast<int64_t>(found.size()) - 1)];
  }

  // Tries one statement, and keeps it if it runs and its values stay small. Returns false if it
  // fails, in which case the program must end with it.
  bool add_statement() {
    const auto& operation = choose_operation();
    const auto closures = program_.closures.size();
    Statement statement;
    statement.operation = &operation;
    statement.no_grad = chance(0.07);
    Picker picker(random_, pool_, program_, [&](Var) {
      const auto& tensor = world_->add_closure();
      interpreter_->add_closure(tensor);
      program_.closures.back().seed = program_.seed + program_.closures.size();
      return tensor;
    });
    if (!operation.pick(picker, statement)) {
      drop_closures(closures);
      return true;
    }
    try {
      const auto made = interpreter_->run(statement);
      const auto written = operation.writes < 0
                               ? at::Tensor()
                               : interpreter_->at(statement.arguments[operation.writes]);
      if (!std::all_of(made.begin(), made.end(), tame) || (written.defined() && !tame(written))) {
        drop_closures(closures);
        rebuild();
        return true;
      }
      for (size_t i = 0; i < made.size(); ++i) statement.makes.push_back(next_temporary_++);
    } catch (const c10::Error&) {
      if (chance(0.04)) {
        program_.body.push_back(statement);
        return false;
      }
      drop_closures(closures);
      rebuild();
      return true;
    }
    program_.body.push_back(statement);
    rebuild();
    return true;
  }
  void drop_closures(size_t count) {
    if (program_.closures.size() == count) return;
    program_.closures.resize(count);
    rebuild();
  }

  void choose_results() {
    std::vector<Var> made, inputs;
    for (const auto& c : pool_)
      (c.var.kind == Var::Kind::temporary ? made : inputs).push_back(c.var);
    const auto pick = [&](const std::vector<Var>& from) {
      const auto last = static_cast<int64_t>(from.size()) - 1;
      return from[std::max(integer(0, last), integer(0, last))];
    };
    for (auto left = integer(1, 4); left > 0; --left) {
      if (!program_.results.empty() && chance(0.08)) {
        program_.results.push_back(pick(program_.results));
      } else if (made.empty() || chance(0.08)) {
        program_.results.push_back(pick(inputs));
      } else {
        program_.results.push_back(pick(made));
      }
    }
  }

  void choose_calls() {
    const bool host =
        std::any_of(program_.body.begin(), program_.body.end(),
                    [](const Statement& s) { return s.operation->family == Family::host; });
    const auto calls = integer(1, 3);
    for (int64_t i = 0; i < calls; ++i) {
      CallPlan call;
      call.flags = flags_;
      if (host && i == 2) {
        for (auto& flag : call.flags) flag = integer(0, 2);
      }
      choose_backward(call);
      program_.calls.push_back(call);
    }
  }
  void choose_backward(CallPlan& call) {
    call.grad_enabled = !chance(0.04);
    if (chance(0.35)) call.roots = static_cast<uint32_t>(integer(1, 15));
    if (chance(0.25)) call.leaves = static_cast<uint32_t>(integer(1, 31));
    call.backward =
        std::array{CallPlan::Backward::grad,        CallPlan::Backward::grad,
                   CallPlan::Backward::accumulate,  CallPlan::Backward::twice,
                   CallPlan::Backward::twice_freed, CallPlan::Backward::none}[integer(0, 5)];
    call.odd_tangents = chance(0.2);
    call.poke = chance(0.6);
  }

  // Each call has sizes with which the program runs; some have the declared ones, and the last one
  // may fail in eager.
  void choose_sized_calls() {
    std::set<int64_t> declared;
    for (const auto& input : program_.arguments) {
      if (input.relation == Input::Relation::fresh) {
        declared.insert(input.sizes.begin(), input.sizes.end());
      }
    }
    for (int i = 0; i < kSizedCalls; ++i) {
      CallPlan call;
      call.flags = flags_;
      choose_backward(call);
      program_.calls.push_back(call);
      constexpr int kTries = 12;
      for (int tries = 0; tries < kTries; ++tries) {
        program_.calls.back().sizes = some_sizes(declared, 1 - tries / (2.0 * kTries));
        if (last_call_runs()) break;
        if (i + 1 == kSizedCalls && chance(0.01)) break;
        program_.calls.back().sizes.clear();
      }
    }
  }
  std::map<int64_t, int64_t> some_sizes(const std::set<int64_t>& declared, double share) {
    std::map<int64_t, int64_t> sizes;
    for (const auto size : declared) {
      if (!chance(size == 1 ? share / 8 : share)) continue;
      sizes[size] = chance(0.05) ? 0 : chance(0.15) ? 1 : integer(2, 9);
    }
    return sizes;
  }
  bool last_call_runs() {
    try {
      torch::manual_seed(program_.seed);
      World world(program_);
      world.begin_call(program_.calls.size() - 1);
      Interpreter interpreter(world.arguments(), world.closures(), flags_);
      return std::ranges::all_of(program_.body, [&](const Statement& statement) {
        return std::ranges::all_of(interpreter.run(statement), [](const at::Tensor& made) {
          return made.numel() <= kMostElementsOfSized;
        });
      });
    } catch (const std::exception&) {
      return false;
    }
  }

  std::mt19937_64 random_;
  bool sized_;
  Program program_;
  std::vector<int64_t> shape_, flags_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Interpreter> interpreter_;
  std::vector<Picker::Candidate> pool_;
  int next_temporary_ = 0;
};

// The origin of each tensor's memory.
class Origins {
 public:
  void made(const Statement& s) {
    const auto family = s.operation->family;
    const bool shares = family == Family::view || family == Family::detach;
    for (const int t : s.makes) {
      const Var var{Var::Kind::temporary, t};
      if (shares) of_.emplace_back(var, origin(s.arguments[0]));
    }
  }
  Var origin(Var var) const {
    for (const auto& [v, o] : of_) {
      if (v == var) return o;
    }
    return var;
  }

 private:
  std::vector<std::pair<Var, Var>> of_;
};

Family family_of_write(const Statement& s, const Origins& origins) {
  const auto target = s.arguments[s.operation->writes];
  const auto origin = origins.origin(target);
  switch (origin.kind) {
    case Var::Kind::argument: return Family::in_place_argument;
    case Var::Kind::closure: return Family::in_place_closure;
    case Var::Kind::temporary: break;
  }
  return origin == target ? Family::in_place : Family::in_place_view;
}

}  // namespace

Program generate(uint64_t seed) {
  [[maybe_unused]] const NotOurLeaks in_eager;
  return Generator(seed, /*sized=*/false).make();
}

Program generate_sized(uint64_t seed) {
  [[maybe_unused]] const NotOurLeaks in_eager;
  return Generator(seed, /*sized=*/true).make();
}

std::set<Family> families_of(const Program& program) {
  std::set<Family> found;
  Origins origins;
  for (const auto& s : program.body) {
    origins.made(s);
    if (s.operation->family != Family::in_place) found.insert(s.operation->family);
    if (s.operation->writes >= 0) found.insert(family_of_write(s, origins));
    if (s.no_grad) found.insert(Family::no_grad);
    for (const auto& var : s.arguments) {
      if (var.kind == Var::Kind::closure && program.closures[var.index].grad != Input::Grad::none) {
        found.insert(Family::closure_gradient);
      }
    }
  }
  for (const auto* list : {&program.arguments, &program.closures}) {
    for (const auto& input : *list) {
      if (input.relation != Input::Relation::fresh) found.insert(Family::shared_inputs);
    }
  }
  for (size_t i = 0; i < program.results.size(); ++i) {
    const auto origin = origins.origin(program.results[i]);
    bool shared = origin.kind != Var::Kind::temporary || !(origin == program.results[i]);
    for (size_t j = 0; j < i; ++j) shared = shared || origins.origin(program.results[j]) == origin;
    if (shared) found.insert(Family::aliased_result);
  }
  for (const auto& call : program.calls) {
    if (call.roots != ~0U || call.leaves != ~0U) found.insert(Family::partial_backward);
  }
  return found;
}

}  // namespace antegrad::fuzz
