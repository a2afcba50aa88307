#include <algorithm>
#include <map>

#include "check.h"

namespace antegrad::fuzz {
namespace {

bool uses(const Statement& s, Var var) {
  return std::find(s.arguments.begin(), s.arguments.end(), var) != s.arguments.end();
}

// Removes statement `i` and everything that needs its values.
void drop_with_dependents(Program& p, size_t i) {
  const auto statement = p.body[i];
  p.body.erase(p.body.begin() + static_cast<std::ptrdiff_t>(i));
  for (const int t : statement.makes) {
    const Var var{Var::Kind::temporary, t};
    std::erase(p.results, var);
    for (size_t j = i; j < p.body.size();) {
      if (uses(p.body[j], var)) {
        drop_with_dependents(p, j);
      } else {
        ++j;
      }
    }
  }
}

// Removes statement `i`; its first argument replaces its value.
bool bypass(Program& p, size_t i) {
  const auto statement = p.body[i];
  if (statement.makes.size() != 1 || statement.arguments.empty()) return false;
  const Var var{Var::Kind::temporary, statement.makes[0]};
  p.body.erase(p.body.begin() + static_cast<std::ptrdiff_t>(i));
  for (auto& other : p.body) {
    std::replace(other.arguments.begin(), other.arguments.end(), var, statement.arguments[0]);
  }
  std::replace(p.results.begin(), p.results.end(), var, statement.arguments[0]);
  return true;
}

// Removes an argument or closure tensor that nothing refers to.
bool drop_input(Program& p, Var var) {
  auto& list = var.kind == Var::Kind::argument ? p.arguments : p.closures;
  const auto refers = [&](const Input& in) {
    return in.relation != Input::Relation::fresh && in.of == var;
  };
  if (std::any_of(p.body.begin(), p.body.end(), [&](const auto& s) { return uses(s, var); }) ||
      std::find(p.results.begin(), p.results.end(), var) != p.results.end() ||
      std::any_of(p.arguments.begin(), p.arguments.end(), refers) ||
      std::any_of(p.closures.begin(), p.closures.end(), refers)) {
    return false;
  }
  list.erase(list.begin() + var.index);
  const auto renumber = [&](Var& v) {
    if (v.kind == var.kind && v.index > var.index) --v.index;
  };
  for (auto& s : p.body) std::for_each(s.arguments.begin(), s.arguments.end(), renumber);
  std::for_each(p.results.begin(), p.results.end(), renumber);
  for (auto* inputs : {&p.arguments, &p.closures}) {
    for (auto& in : *inputs) renumber(in.of);
  }
  return true;
}

class Shrinker {
 public:
  Shrinker(Program program, std::function<bool(const Program&)> keeps)
      : program_(std::move(program)), keeps_(std::move(keeps)) {}

  Program run() {
    do {
      smaller_ = false;
      drop_statements();
      drop_and_simplify_calls();
      drop_results();
      simplify_inputs();
    } while (smaller_ && tries_ < kMostTries);
    return std::move(program_);
  }

 private:
  static constexpr int kMostTries = 600;

  // Keeps the edited program if the edit applies and the property still holds.
  template <class Edit>
  bool attempt(const Edit& edit) {
    if (++tries_ > kMostTries) return false;
    auto candidate = program_;
    if (!edit(candidate) || !keeps_(candidate)) return false;
    program_ = std::move(candidate);
    smaller_ = true;
    return true;
  }

  void drop_statements() {
    for (size_t i = program_.body.size(); i-- > 0;) {
      if (i >= program_.body.size()) continue;  // several were dropped
      if (attempt([&](Program& p) { return drop_with_dependents(p, i), true; })) continue;
      if (attempt([&](Program& p) { return bypass(p, i); })) continue;
      attempt([&](Program& p) { return std::exchange(p.body[i].no_grad, false); });
    }
  }

  void drop_results() {
    for (size_t i = program_.results.size(); i-- > 0;) {
      attempt([&](Program& p) {
        p.results.erase(p.results.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      });
    }
  }

  // Sets a member, if that changes it.
  template <class Get, class T>
  void simplify(const Get& get, const T& value) {
    attempt([&](Program& p) { return !(std::exchange(get(p), value) == value); });
  }

  void drop_and_simplify_calls() {
    for (size_t i = program_.calls.size(); i-- > 0;) {
      const bool dropped = program_.calls.size() > 1 && attempt([&](Program& p) {
                             p.calls.erase(p.calls.begin() + static_cast<std::ptrdiff_t>(i));
                             return true;
                           });
      if (dropped) continue;
      for (const auto& [declared, size] : std::map(program_.calls[i].sizes)) {
        attempt([&](Program& p) { return p.calls[i].sizes.erase(declared) > 0; });
      }
      simplify(
          [&](Program & p) -> auto& { return p.calls[i].poke; }, false);
      simplify(
          [&](Program & p) -> auto& { return p.calls[i].backward; }, CallPlan::Backward::none);
      if (program_.calls[i].backward != CallPlan::Backward::none) {
        simplify(
            [&](Program & p) -> auto& { return p.calls[i].backward; }, CallPlan::Backward::grad);
      }
      simplify(
          [&](Program & p) -> auto& { return p.calls[i].grad_enabled; }, true);
      simplify(
          [&](Program & p) -> auto& { return p.calls[i].odd_tangents; }, false);
      simplify(
          [&](Program & p) -> auto& { return p.calls[i].roots; }, ~0U);
      simplify(
          [&](Program & p) -> auto& { return p.calls[i].leaves; }, ~0U);
      simplify(
          [&](Program & p) -> auto& { return p.calls[i].flags; }, std::vector<int64_t>{0, 0});
    }
  }

  void simplify_inputs() {
    for (const auto kind : {Var::Kind::argument, Var::Kind::closure}) {
      const auto list = [&](Program & p) -> auto& {
        return kind == Var::Kind::argument ? p.arguments : p.closures;
      };
      for (size_t i = list(program_).size(); i-- > 0;) {
        const Var var{kind, static_cast<int>(i)};
        if (attempt([&](Program& p) { return drop_input(p, var); })) continue;
        simplify(
            [&](Program & p) -> auto& { return list(p)[i].layout; }, Input::Layout::contiguous);
        simplify(
            [&](Program & p) -> auto& { return list(p)[i].grad; }, Input::Grad::none);
        if (list(program_)[i].grad == Input::Grad::non_leaf) {
          simplify(
              [&](Program & p) -> auto& { return list(p)[i].grad; }, Input::Grad::leaf);
        }
        if (at::isFloatingType(list(program_)[i].dtype)) {
          simplify(
              [&](Program & p) -> auto& { return list(p)[i].dtype; }, at::kFloat);
        }
      }
    }
  }

  Program program_;
  std::function<bool(const Program&)> keeps_;
  bool smaller_ = false;
  int tries_ = 0;
};

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& keeps) {
  return Shrinker(std::move(program),
                  [&](const Program& candidate) {
                    try {
                      return keeps(candidate);
                    } catch (const std::exception&) {  // an input that can no longer be created
                      return false;
                    }
                  })
      .run();
}

Program shrink(Program program, const Compile& compile) {
  const auto first = check(program, compile);
  const auto words = [](const Verdict& v) {
    return v.kind <= Verdict::Kind::error ? v.detail.substr(0, 100) : std::string();
  };
  return shrink(std::move(program), [&](const Program& candidate) {
    const auto verdict = check(candidate, compile);
    return verdict.kind == first.kind && words(verdict) == words(first);
  });
}

}  // namespace antegrad::fuzz
