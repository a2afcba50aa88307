#include "check.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <antegrad/antegrad.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <sstream>

#include "capture/stand_in.h"
#include "leaks.h"
#include "support/bits.h"

namespace antegrad::fuzz {
namespace {

using Kind = Verdict::Kind;
using testing::generator_state;

// How a run ended.
enum class Raised : uint8_t { nothing, refusal, bug, other };

// How a fact of one run must be that of the other.
enum class Match : uint8_t {
  exact,
  rounded,              // but for the last bits and the layout
  rounded_to_bfloat16,  // the same, where values were of that type on the way
  any,  // a gradient through memory that was written behind autograd's back: eager's is of the new data
};

// One thing to compare: a value or words.
struct Fact {
  Kind kind;
  std::string what;
  std::string words;
  at::Tensor value;
  Match match = Match::exact;
};

struct Observation {
  std::vector<Fact> facts;
  Raised raised = Raised::nothing;
  std::string moment, error;
};

// Runs something of which an error is part of what is observed. Returns whether it raised one.
bool raises(Observation& seen, const char* moment, const std::function<void()>& body) {
  try {
    body();
    return false;
  } catch (const CaptureError& e) {
    seen.raised = Raised::refusal;
    seen.error = e.what();
  } catch (const BackwardError& e) {
    seen.raised = Raised::refusal;
    seen.error = e.what();
  } catch (const Error& e) {
    seen.raised = Raised::bug;
    seen.error = e.what();
  } catch (const c10::Error& e) {
    seen.raised = Raised::other;
    seen.error = e.what_without_backtrace();
  } catch (const std::exception& e) {
    seen.raised = Raised::other;
    seen.error = e.what();
  }
  seen.moment = moment;
  return true;
}

// Values as they are now.
at::Tensor frozen(const at::Tensor& t) {
  if (!t.defined()) return t;
  return t.detach().resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous).to(at::kCPU);
}

struct Named {
  std::string name;
  at::Tensor tensor;
};

// Whether a result has memory of its own that was written. In a program it starts at 0 then, whatever operator
// made it (docs/accuracy.md).
bool is_written_anew(const Named& result, const std::vector<Named>& all) {
  if (!result.name.starts_with("result[") || !result.tensor.defined()) return false;
  return result.tensor._version() > 0 &&
         std::none_of(all.begin(), all.end(), [&](const Named& other) {
           return !other.name.starts_with("result[") && other.tensor.defined() &&
                  other.tensor.storage().is_alias_of(result.tensor.storage());
         });
}

// The words that describe a tensor without its values.
std::string metadata(const at::Tensor& t, bool written_anew) {
  if (!t.defined()) return "undefined";
  try {
    static_cast<void>(t.grad_fn());  // of a view whose base was written: is_leaf() follows it late
  } catch (const c10::Error&) {
    // A view that forbids it says so in eager, too.
  }
  std::ostringstream out;
  out << t.scalar_type() << t.sizes();
  if (t.numel() > 0) {
    for (int64_t d = 0; d < t.dim(); ++d) {  // the stride of a single element says nothing
      out << (d == 0 ? " strides " : ", ") << (t.size(d) == 1 ? 0 : t.stride(d));
    }
  }
  out << " offset " << (written_anew ? 0 : t.storage_offset())
      << (t.requires_grad() ? " requires_grad" : "") << (t.is_leaf() ? " leaf" : "")
      << (t.is_view() ? " view" : "");
  return out.str();
}

// Numbers things in the order in which they appear.
class Classes {
 public:
  int of(const void* thing) {
    return seen_.emplace(thing, static_cast<int>(seen_.size())).first->second;
  }

 private:
  std::map<const void*, int> seen_;
};

std::vector<Named> named(const World& world, const List& results) {
  std::vector<Named> all;
  const auto add = [&](const char* name, const List& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      all.push_back({name + std::to_string(i) + "]", list[i]});
    }
  };
  add("a[", world.arguments());
  add("c[", world.closures());
  add("result[", results);
  return all;
}

// Who is the same tensor, who shares a storage, and whose view is who.
std::string aliases(const std::vector<Named>& all) {
  Classes tensors, storages;
  std::ostringstream out;
  for (const auto& [name, t] : all) {
    if (!t.defined()) continue;
    out << name << ": tensor " << tensors.of(t.unsafeGetTensorImpl()) << " storage "
        << storages.of(t.storage().unsafeGetStorageImpl());
    if (t.is_view()) out << " base " << tensors.of(t._base().unsafeGetTensorImpl());
    out << "; ";
  }
  return out.str();
}

// Eager's composite operators write to what they have just made, so that the version of a result of its own
// is an accident; that of memory known outside is not.
bool versions_matter(const Named& of, const std::vector<Named>& all) {
  if (of.name[0] != 'r') return true;
  return std::any_of(all.begin(), all.end(), [&](const Named& other) {
    return other.name[0] != 'r' && other.tensor.defined() &&
           other.tensor.storage().is_alias_of(of.tensor.storage());
  });
}

void note_state(Observation& seen, const std::vector<Named>& all, Kind values) {
  for (const auto& [name, t] : all) {
    const bool result = name[0] == 'r';
    seen.facts.push_back(
        {values != Kind::results || result ? values : Kind::inputs, name, "", frozen(t)});
  }
  for (const auto& of : all) {
    if (!of.tensor.defined() || !versions_matter(of, all)) continue;
    seen.facts.push_back(
        {Kind::versions, of.name, "version " + std::to_string(of.tensor._version()), {}});
  }
}

// Whether backward from it starts outside of the callable: then sums may be in another order.
bool starts_outside(const at::Tensor& root, const World& world) {
  for (const auto* list : {&world.arguments(), &world.closures()}) {
    for (const auto& t : *list) {
      if (root.is_same(t) || (root.is_view() && t.is_same(root._base()))) return true;
      if (root.storage().is_alias_of(t.storage())) return true;
    }
  }
  return false;
}

at::Tensor tangent_for(const at::Tensor& root, const CallPlan& plan, size_t index, uint64_t seed) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(seed + index);
  const auto make = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator).to(root.options());
  };
  if (!plan.odd_tangents || root.dim() == 0) return make(root.sizes());
  if (index % 2 == 0) return make({}).expand(root.sizes());
  auto sizes = root.sizes().vec();
  std::swap(sizes.front(), sizes.back());
  return make(sizes).transpose(0, -1);
}

// Formulas of libtorch that look at the data take another way for tensors without data, see
// docs/accuracy.md: other last bits, or another sign of zero.
bool rounds_differently(const Program& program) {
  return std::any_of(program.body.begin(), program.body.end(), [&](const Statement& statement) {
    const std::string_view text = statement.operation->text;
    // Eager's CUDA kernels depend on the gradients that are asked for; a program computes all.
    if (program.device.is_cuda() && text.starts_with("at::batch_norm(")) return true;
    return text.starts_with("at::prod(") || text.starts_with("at::cumprod(") ||
           text.starts_with("at::max(c.t[0])");
  });
}

bool writes_behind_autograd(const Program& program) {
  return std::any_of(program.body.begin(), program.body.end(), [](const Statement& statement) {
    const std::string_view text = statement.operation->text;
    return text.find(".data().") != text.npos || text.find(".detach().") != text.npos;
  });
}

struct BackwardPlan {
  List roots, tangents, leaves;
  Match match = Match::exact;
};

BackwardPlan plan_backward(const Program& program, const World& world, const CallPlan& plan,
                           const List& results) {
  BackwardPlan out;
  const bool low = to_text(program).find("at::kBFloat16") != std::string::npos;
  const auto rounds = [&] {
    out.match = std::max(out.match, low ? Match::rounded_to_bfloat16 : Match::rounded);
  };
  if (rounds_differently(program)) rounds();
  if (writes_behind_autograd(program)) out.match = Match::any;
  List candidates = results;
  for (const auto& a : world.arguments()) candidates.push_back(a);
  size_t index = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto& t = candidates[i];
    if (!t.defined() || !t.requires_grad() || t.is_leaf()) continue;
    const bool argument = i >= results.size();
    if ((plan.roots >> std::min<size_t>(index++, 31) & 1U) == 0) continue;
    if (argument && t._version() == 0) continue;  // nothing to do with the call
    out.roots.push_back(t);
    out.tangents.push_back(tangent_for(t, plan, index, program.seed));
    // A view's tangent meets the gradients of its base in another order.
    if (starts_outside(t, world) || t.is_view()) rounds();
  }
  const auto leaves = world.leaves();
  for (size_t i = 0; i < leaves.size(); ++i) {
    if ((plan.leaves >> std::min<size_t>(i, 31) & 1U) != 0) out.leaves.push_back(leaves[i]);
  }
  return out;
}

void note_gradients(Observation& seen, const List& gradients, Match match, const char* what) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto& g = gradients[i];
    const auto name = what + std::to_string(i);
    seen.facts.push_back({Kind::gradients, name, g.defined() ? "defined" : "undefined", {}});
    std::ostringstream strides;
    // The stride of a dimension of size 1 says nothing, nor do those of an empty tensor.
    for (int64_t d = 0; g.defined() && g.numel() > 0 && d < g.dim(); ++d) {
      strides << (d == 0 ? "strides " : ", ") << (g.size(d) == 1 ? 0 : g.stride(d));
    }
    seen.facts.push_back({Kind::gradients, name, "", frozen(g), match});
    seen.facts.push_back({Kind::gradients, name, strides.str(), {}, match});
  }
}

void observe_backward(Observation& seen, const Program& program, const World& world,
                      const CallPlan& call, const List& results) {
  using Mode = CallPlan::Backward;
  if (call.backward == Mode::none) return;
  const auto plan = plan_backward(program, world, call, results);
  if (plan.roots.empty() || plan.leaves.empty()) return;
  const bool again = call.backward == Mode::twice || call.backward == Mode::twice_freed;
  for (int pass = 0; pass < (again ? 2 : 1); ++pass) {
    const bool failed = raises(seen, pass == 0 ? "backward" : "second backward", [&] {
      const bool retain = pass == 0 && call.backward == Mode::twice;
      if (call.backward == Mode::accumulate) {
        torch::autograd::backward(plan.roots, plan.tangents, retain);
        List gradients;
        for (const auto& leaf : world.leaves()) gradients.push_back(leaf.grad());
        note_gradients(seen, gradients, plan.match, ".grad of leaf ");
        return;
      }
      note_gradients(seen,
                     torch::autograd::grad(plan.roots, plan.leaves, plan.tangents, retain,
                                           /*create_graph=*/false, /*allow_unused=*/true),
                     plan.match, "gradient of leaf ");
    });
    if (failed) return;
  }
}

// Writes to every result; then who shares its memory and its version shows.
void observe_pokes(Observation& seen, const World& world, const List& results) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < results.size(); ++i) {
    auto t = results[i];
    if (!t.defined()) continue;
    std::string outcome = "written";
    try {
      if (t.scalar_type() == at::kBool) {
        t.logical_not_();
      } else if (t.scalar_type() == at::kLong) {
        t.add_(1);
      } else {
        t.mul_(0.5);
      }
    } catch (const c10::Error&) {
      outcome = "not writable";
    }
    seen.facts.push_back({Kind::later_writes, "result[" + std::to_string(i) + "]", outcome, {}});
  }
  auto after = Observation();
  note_state(after, named(world, results), Kind::later_writes);
  for (auto& fact : after.facts) {
    fact.kind = Kind::later_writes;
    seen.facts.push_back(std::move(fact));
  }
}

Observation observe(const Program& program, World& world, const Callable& callable, size_t index) {
  Observation seen;
  const auto& call = program.calls[index];
  world.begin_call(index);
  torch::manual_seed(program.seed + index);
  Observation before;
  note_state(before, named(world, {}), Kind::trace);
  List results;
  const bool failed = raises(seen, "call", [&] {
    const at::AutoGradMode mode(call.grad_enabled);
    results = callable(world.arguments(), call.flags);
  });
  if (failed) {
    seen.facts = std::move(before.facts);
    note_state(seen, named(world, {}), Kind::trace);
    return seen;
  }
  const auto all = named(world, results);
  note_state(seen, all, Kind::results);
  for (const auto& one : all) {
    const auto words = metadata(one.tensor, is_written_anew(one, all));
    seen.facts.push_back({Kind::metadata, one.name, words, {}});
  }
  seen.facts.push_back({Kind::aliases, "", aliases(all), {}});
  seen.facts.push_back({Kind::generator, "generator", "", generator_state(program.device)});
  observe_backward(seen, program, world, call, results);
  if (seen.raised != Raised::nothing) return seen;
  seen.facts.push_back(
      {Kind::generator, "generator after backward", "", generator_state(program.device)});
  if (call.poke) observe_pokes(seen, world, results);
  return seen;
}

// Bits; but a NaN is a NaN.
bool same_value(const at::Tensor& a, const at::Tensor& b, Match match) {
  if (testing::same_bits(a, b)) return true;
  if (!a.defined() || !b.defined() || a.scalar_type() != b.scalar_type() ||
      a.sizes() != b.sizes()) {
    return false;
  }
  const auto x = a.is_complex() ? at::view_as_real(a) : a;
  const auto y = b.is_complex() ? at::view_as_real(b) : b;
  if (match != Match::exact && x.is_floating_point()) {
    const double tolerance = match == Match::rounded_to_bfloat16 ? 0.05 : 1e-4;
    return at::allclose(x, y, tolerance, tolerance, /*equal_nan=*/true);
  }
  if (!x.is_floating_point()) return false;
  return bool(testing::same_bits(at::where(x.isnan(), at::zeros_like(x), x),
                                 at::where(y.isnan(), at::zeros_like(y), y))) &&
         at::equal(x.isnan(), y.isnan());
}

std::string shown(const Fact& fact) {
  if (!fact.value.defined()) return fact.words;
  std::ostringstream out;
  out << fact.value.scalar_type() << fact.value.sizes();
  if (fact.value.numel() <= 8 && fact.what.find("generator") == std::string::npos) {
    for (int64_t i = 0; i < fact.value.numel(); ++i) {
      out << ' ' << fact.value.flatten()[i].item();
    }
  }
  return out.str();
}

// The first difference, of the kind that comes first. Sets `approximate` when a tolerance was needed.
std::optional<Verdict> first_difference(const Observation& eager, const Observation& found,
                                        bool& approximate) {
  std::optional<Verdict> first;
  const auto differ = [&](Kind kind, std::string detail) {
    if (!first || kind < first->kind) first = Verdict{kind, std::move(detail)};
  };
  const auto count = std::min(eager.facts.size(), found.facts.size());
  if (eager.facts.size() != found.facts.size()) {
    differ(Kind::metadata, "another number of tensors or gradients");
  }
  for (size_t i = 0; i < count; ++i) {
    const auto &a = eager.facts[i], &b = found.facts[i];
    if (a.kind != b.kind || a.what != b.what) {
      differ(Kind::metadata, a.what + " against " + b.what);
      break;
    }
    if (a.words == b.words && same_value(a.value, b.value, Match::exact)) continue;
    // Another order of a sum gives other last bits, or another layout: that of its first term.
    const bool layout = a.kind == Kind::gradients && a.words.starts_with("strides");
    if (layout || a.match == Match::any ||
        (same_value(a.value, b.value, a.match) && a.words == b.words)) {
      approximate = true;
      continue;
    }
    differ(a.kind, a.what + ": eager " + shown(a) + ", found " + shown(b));
  }
  return first;
}

// What a refusal expected and found, without the details that differ from program to program.
std::string reason(const std::string& error) {
  const auto found = error.find("found ");
  std::string out =
      error.substr(0, error.find_first_of(":;", found == std::string::npos ? 0 : found));
  std::erase_if(out, [](char c) { return c >= '0' && c <= '9'; });
  return out;
}

bool left_as_it_was(const Observation& failed) {
  const auto half = failed.facts.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const auto &a = failed.facts[i], &b = failed.facts[half + i];
    if (a.words != b.words || !same_value(a.value, b.value, Match::exact)) return false;
  }
  return true;
}

// Eager refuses a second backward through an operator that had saved something, even if the gradient does
// not need it; a compiled region refuses it when it needs what was freed. Then gradients are right.
// Likewise what was written since it was saved: the program's gradient is that of the call's values.
bool needs_nothing_that_is_gone(const Observation& eager, const Observation& found) {
  const auto says = [&](const char* words) { return eager.error.find(words) != std::string::npos; };
  return found.raised == Raised::nothing && (says("backward through the graph a second time") ||
                                             says("has been modified by an inplace operation") ||
                                             says("view which was created in no_grad mode"));
}

// The verdict when one of the two raised an error; nothing when both did, at the same moment.
std::optional<Verdict> compare_errors(const Observation& eager, const Observation& found) {
  if (found.raised == Raised::bug) return Verdict{Kind::internal_error, found.error};
  if (eager.raised != Raised::nothing && eager.moment == found.moment) return std::nullopt;
  if (found.raised == Raised::refusal) {
    if (found.moment == "call" && !left_as_it_was(found)) {
      return Verdict{Kind::trace, "after: " + found.error};
    }
    return Verdict{Kind::refused, reason(found.error)};
  }
  const auto words = [](const Observation& o) {
    return o.raised == Raised::nothing ? std::string("nothing")
                                       : o.moment + ": " + o.error.substr(0, 160);
  };
  return Verdict{Kind::error, "found " + words(found) + "; eager " + words(eager)};
}

}  // namespace

const char* to_string(Kind kind) {
  static constexpr const char* kNames[] = {
      "same",      "refused",   "internal error", "error",      "a refusal left a trace",
      "results",   "inputs",    "metadata",       "aliases",    "versions",
      "generator", "gradients", "later writes",   "eager call", "stand-ins"};
  return kNames[static_cast<size_t>(kind)];
}

Subject compiled(const Program& program, const Callable& callable) {
  auto step = std::make_shared<Compiled<Callable>>(
      antegrad::compile(Callable(callable), Options()
                                                .with_name("fuzz" + std::to_string(program.seed))
                                                .with_verify_graphs(true)
                                                .with_max_programs(32)));
  return {[step](const List& arguments, const std::vector<int64_t>& flags) {
            return (*step)(arguments, flags);
          },
          [step] { return step->report().eager_calls; }};
}

// What a callable holds. Let go of at the end: a callable that holds a tensor to which it gave history is kept
// alive by that history (docs/accuracy.md, known limits).
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

Verdict check(const Program& program, const Compile& compile) {
  World eager_world(program), found_world(program);
  const Held held_in_eager(eager_world), held(found_world);
  const auto callable_of = [&](const Held& tensors) -> Callable {
    return [&program, closures = tensors.tensors()](const List& arguments,
                                                    const std::vector<int64_t>& flags) {
      return run(program, arguments, *closures, flags);
    };
  };
  const auto eager_callable = callable_of(held_in_eager);
  const auto stand_ins = capture::live_stand_ins();
  bool approximate = false, lenient = false;
  {
    const auto subject = compile(program, callable_of(held));
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const auto eager = [&] {
        [[maybe_unused]] const NotOurLeaks in_eager;
        return observe(program, eager_world, eager_callable, i);
      }();
      const auto found = observe(program, found_world, subject.call, i);
      if (needs_nothing_that_is_gone(eager, found)) {
        lenient = true;
        break;
      }
      if (eager.raised != Raised::nothing || found.raised != Raised::nothing) {
        if (auto verdict = compare_errors(eager, found)) return *verdict;
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
  return {Kind::same, "", approximate, lenient};
}

}  // namespace antegrad::fuzz
