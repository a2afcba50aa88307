#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <antegrad/error.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <sstream>

#include "observation.h"
#include "support/bits.h"
#include "torch_compat/autograd_graph.h"

namespace antegrad::fuzz {
namespace {

using Kind = Verdict::Kind;
using testing::generator_state;

// Runs code whose error is part of the observation. Returns whether it raised one.
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

// A snapshot of the current values.
at::Tensor frozen(const at::Tensor& t) {
  if (!t.defined()) return t;
  return t.detach().resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous).to(at::kCPU);
}

struct Named {
  std::string name;
  at::Tensor tensor;
};

// Whether a result has memory that nothing outside of the call shares.
bool has_own_memory(const Named& result, const std::vector<Named>& all) {
  return result.name[0] == 'r' && std::none_of(all.begin(), all.end(), [&](const Named& other) {
           return other.name[0] != 'r' && other.tensor.defined() &&
                  other.tensor.storage().is_alias_of(result.tensor.storage());
         });
}

// The metadata of a tensor as text.
std::string metadata(const at::Tensor& t) {
  if (!t.defined()) return "undefined";
  try {
    static_cast<void>(t.grad_fn());  // for a view of a written base, is_leaf() lags behind
  } catch (const c10::Error&) {
    // A view that forbids grad_fn() does so in eager, too.
  }
  std::ostringstream out;
  out << t.scalar_type() << t.sizes();
  if (t.numel() > 0) {
    for (int64_t d = 0; d < t.dim(); ++d) {  // a dimension of size 1 has no meaningful stride
      out << (d == 0 ? " strides " : ", ") << (t.size(d) == 1 ? 0 : t.stride(d));
    }
  }
  out << (t.requires_grad() ? " requires_grad" : "") << (t.is_leaf() ? " leaf" : "")
      << (t.is_view() ? " view" : "");
  return out.str();
}

// Numbers objects in the order of their first appearance.
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

// Which tensors are the same, share a storage, or are views of each other.
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

bool writes_behind_autograd(const Program& program) {
  return std::any_of(program.body.begin(), program.body.end(), [](const Statement& statement) {
    const std::string_view text = statement.operation->text;
    return text.find(".data().") != text.npos || text.find(".detach().") != text.npos;
  });
}

// A compiled program returns a written result that has its own memory at storage offset 0,
// whichever operator made it (docs/accuracy.md).
void note_metadata(Observation& seen, const std::vector<Named>& all, bool written_unseen) {
  for (const auto& one : all) {
    const auto& [name, t] = one;
    seen.facts.push_back({Kind::metadata, name, metadata(t), {}});
    if (!t.defined()) continue;
    const bool written = t._version() > 0 || written_unseen;
    seen.facts.push_back(
        {Kind::metadata,
         name,
         "offset " + std::to_string(t.storage_offset()),
         {},
         written && has_own_memory(one, all) ? Match::or_at_the_start : Match::exact});
  }
}

void note_state(Observation& seen, const std::vector<Named>& all, Kind values) {
  for (const auto& [name, t] : all) {
    const bool result = name[0] == 'r';
    seen.facts.push_back(
        {values != Kind::results || result ? values : Kind::inputs, name, "", frozen(t)});
  }
  for (const auto& of : all) {
    // Eager's composite operators write to tensors that they have just made, so the version of such
    // a result is arbitrary. The version of memory known outside is not.
    if (!of.tensor.defined() || has_own_memory(of, all)) continue;
    seen.facts.push_back(
        {Kind::versions, of.name, "version " + std::to_string(of.tensor._version()), {}});
  }
}

// Whether a backward from this tensor starts outside of the callable, in which case sums may be in
// another order.
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

// Formulas of libtorch that read the data take another path for tensors without data
// (docs/accuracy.md), with other last bits or another sign of zero.
bool rounds_differently(const Program& program) {
  return std::any_of(program.body.begin(), program.body.end(), [&](const Statement& statement) {
    const std::string_view text = statement.operation->text;
    // Eager's CUDA kernels depend on which gradients are wanted; a program computes all.
    if (program.device.is_cuda() && text.starts_with("at::batch_norm(")) return true;
    return text.starts_with("at::prod(") || text.starts_with("at::cumprod(") ||
           text.starts_with("at::max(c.t[0])");
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
    if (argument && t._version() == 0) continue;  // not affected by the call
    out.roots.push_back(t);
    out.tangents.push_back(tangent_for(t, plan, index, program.seed));
    // The tangent of a view is added to the gradients of its base in another order.
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
    // Strides of dimensions of size 1 and of empty tensors have no meaning.
    for (int64_t d = 0; g.defined() && g.numel() > 0 && d < g.dim(); ++d) {
      strides << (d == 0 ? "strides " : ", ") << (g.size(d) == 1 ? 0 : g.stride(d));
    }
    seen.facts.push_back({Kind::gradients, name, "", frozen(g), match});
    seen.facts.push_back({Kind::gradients, name, strides.str(), {}, match});
  }
}

// A hook that notes the gradients of a node, and halves them at times.
struct NotingHook : torch::autograd::FunctionPreHook, torch::autograd::FunctionPostHook {
  NotingHook(std::shared_ptr<Observation*> seen, std::string name, bool halves, Match match)
      : seen(std::move(seen)), name(std::move(name)), halves(halves), match(match) {}

  List note(const List& gradients) const {
    List changed;
    for (const auto& g : gradients) {
      if (*seen != nullptr) {
        (*seen)->facts.push_back(
            {Kind::gradients, name, g.defined() ? "defined" : "undefined", {}});
        (*seen)->facts.push_back({Kind::gradients, name, "", frozen(g), match});
      }
      changed.push_back(halves && g.defined() && !g.is_sparse() ? g * 0.5 : g);
    }
    return changed;
  }
  List operator()(const List& gradients) override { return note(gradients); }
  List operator()(const List& outputs, const List& /*inputs*/) override { return note(outputs); }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& /*args*/) const override {}

  const std::shared_ptr<Observation*> seen;
  const std::string name;
  const bool halves;
  const Match match;
};

// An autograd::Function between results and tangents.
struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * 2;
  }
  static List backward(torch::autograd::AutogradContext* /*context*/, List gradients) {
    return {gradients[0] * 2};
  }
};

// Hooks on random nodes of the histories of roots, and custom functions before some of these. Where
// they are depends on the program alone.
void add_hooks(const std::shared_ptr<Observation*>& seen, const Program& program,
               BackwardPlan& plan) {
  std::mt19937_64 random(program.seed ^ 0xbf58476d1ce4e5b9U);
  for (auto& root : plan.roots) {
    if (root.is_floating_point() && random() % 4 == 0) root = Doubled::apply(root);
  }
  int number = 0;
  for (auto* node : torch_compat::walk(plan.roots).functions) {
    const auto hook = [&](const char* kind) {
      return std::make_unique<NotingHook>(seen, kind + std::to_string(number++), random() % 2 == 0,
                                          plan.match);
    };
    if (random() % 6 == 0) node->add_tensor_pre_hook(hook("tensor hook "));
    if (random() % 8 == 0) node->add_pre_hook(hook("hook before "));
    if (random() % 8 == 0) node->add_post_hook(hook("hook behind "));
  }
}

void observe_backward(Observation& seen, const Program& program, const World& world,
                      const CallPlan& call, const List& results) {
  using Mode = CallPlan::Backward;
  if (call.backward == Mode::none) return;
  auto plan = plan_backward(program, world, call, results);
  if (plan.roots.empty() || plan.leaves.empty()) return;
  const auto noting = std::make_shared<Observation*>(&seen);
  const std::shared_ptr<void> end(nullptr, [noting](void*) { *noting = nullptr; });
  const bool again = call.backward == Mode::twice || call.backward == Mode::twice_freed;
  for (int pass = 0; pass < (again ? 2 : 1); ++pass) {
    const bool failed = raises(seen, pass == 0 ? "backward" : "second backward", [&] {
      const bool retain = pass == 0 && call.backward == Mode::twice;
      if (pass == 0 && program.hooked) add_hooks(noting, program, plan);
      if (call.backward == Mode::accumulate) {
        torch::autograd::backward(plan.roots, plan.tangents, retain);
        List gradients;
        for (const auto& leaf : world.leaves()) gradients.push_back(leaf.grad());
        note_gradients(seen, gradients, plan.match, kAccumulated);
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

// Writes to every result, which shows what shares its memory and its version.
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

}  // namespace

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
  note_metadata(seen, all, writes_behind_autograd(program));
  seen.facts.push_back({Kind::aliases, "", aliases(all), {}});
  seen.facts.push_back({Kind::generator, "generator", "", generator_state(program.device)});
  observe_backward(seen, program, world, call, results);
  if (seen.raised != Raised::nothing) return seen;
  seen.facts.push_back(
      {Kind::generator, "generator after backward", "", generator_state(program.device)});
  if (call.poke) observe_pokes(seen, world, results);
  return seen;
}

}  // namespace antegrad::fuzz
