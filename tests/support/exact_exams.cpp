#include "support/exact_exams.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/utils.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "support/bits.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::testing {
namespace {

constexpr uint64_t kCallSeed = 7;
constexpr uint64_t kTangentSeed = 1234;

using Subject = Run::Subject;
using Subjects = std::vector<Subject>;

// For a view whose base was written, this query creates a new history, which may throw.
torch_compat::NodePtr history(const at::Tensor& tensor) {
  try {
    return tensor.grad_fn();
  } catch (const std::exception&) {
    return nullptr;
  }
}

bool is_strided(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_quantized() && !tensor.is_nested();
}
bool can_differentiate(const at::Tensor& tensor) {
  return is_strided(tensor) && (tensor.is_floating_point() || tensor.is_complex());
}

std::string text(at::IntArrayRef ints) {
  std::ostringstream out;
  out << ints;
  return out.str();
}

// Name of the first subject for which `same` holds, else "none".
template <class Same>
std::string first_name(const Subjects& subjects, const Same& same) {
  const auto it = std::find_if(subjects.begin(), subjects.end(),
                               [&](const Subject& s) { return same(s.tensor); });
  return it == subjects.end() ? "none" : it->name;
}

std::string base_name(const Subjects& subjects, const at::Tensor& tensor) {
  const auto& base = tensor._base();
  const auto visible = first_name(subjects, [&](const at::Tensor& t) { return t.is_same(base); });
  if (visible != "none") return visible;
  const auto shared = first_name(
      subjects, [&](const at::Tensor& t) { return t.is_view() && t._base().is_same(base); });
  return "a hidden one, first of " + shared;
}

Record::Precision precision(const Run& run) {
  if (!run.subject().rounding.empty()) return Record::Precision::rounding;
  return run.differentiates_outside() ? Record::Precision::any_order : Record::Precision::bits;
}

void autograd_state(const Run& run, const Subjects& subjects, const at::Tensor& tensor,
                    Record& record) {
  record.note("requires_grad", tensor.requires_grad());
  record.note("is_leaf", tensor.is_leaf());
  record.attempt("grad_fn asked", [&] { record.note("has grad_fn", tensor.grad_fn() != nullptr); });
  record.note("retains_grad", tensor.retains_grad());
  record.note("is_view", tensor.is_view());
  if (tensor.is_view()) record.note("base", base_name(subjects, tensor));
  record.note("is_inference", tensor.is_inference());
  if (!tensor.is_inference()) record.note("version", run.version_of(tensor));
  record.gradient(".grad", tensor.unsafeGetTensorImpl()->grad(), precision(run));
}

void describe(const Run& run, const Subjects& subjects, const Subject& subject, Record& record) {
  const Record::Scope scope(record, subject.name);
  const auto& tensor = subject.tensor;
  record.values("values", tensor);
  record.note("same tensor as",
              first_name(subjects, [&](const at::Tensor& t) { return t.is_same(tensor); }));
  if (!is_strided(tensor)) return;
  record.note("strides", text(tensor.strides()));
  record.note("storage_offset", tensor.storage_offset());
  record.note("conjugate", tensor.is_conj());
  record.note("negative", tensor.is_neg());
  record.note("same storage as", first_name(subjects, [&](const at::Tensor& t) {
                return is_strided(t) && t.storage().is_alias_of(tensor.storage());
              }));
  autograd_state(run, subjects, tensor, record);
}

std::string show(const HostValue& value) {
  return std::visit(
      [](const auto& held) {
        std::ostringstream out;
        out << held;
        return out.str();
      },
      value);
}

void generators(const Run& run, Record& record) {
  record.values("generator", generator_state());
  int64_t i = 0;
  for (const auto& generator : run.world().generators) {
    record.values("generator of the world " + std::to_string(i++), generator.get_state());
  }
}

// ---- Memory -------------------------------------------------------------------------------------

std::vector<int64_t> versions(const Subjects& subjects) {
  std::vector<int64_t> all;
  for (const auto& s : subjects) all.push_back(s.tensor.is_inference() ? -1 : s.tensor._version());
  return all;
}

// Which subjects share a version counter, and which change if one is written.
void memory(const Run& run, Record& record) {
  const auto subjects = run.subjects();
  for (const auto& s : subjects) {
    if (s.tensor.is_inference()) continue;
    const auto before = versions(subjects);
    torch::autograd::impl::bump_version(s.tensor);
    const auto after = versions(subjects);
    std::string moved;
    for (size_t i = 0; i < subjects.size(); ++i) {
      if (before[i] != after[i]) moved += subjects[i].name + ", ";
    }
    record.note("versions that move with " + s.name, moved);
  }
  const at::NoGradGuard no_grad;
  for (const auto& s : subjects) {
    if (!is_strided(s.tensor)) continue;
    const Record::Scope scope(record, "after a write to " + s.name);
    record.attempt("the write", [&] {
      if (s.tensor.scalar_type() == at::kBool) {
        s.tensor.logical_not_();
      } else {
        s.tensor.add_(1);
      }
    });
    for (const auto& other : subjects) record.values(other.name, other.tensor);
  }
}

// ---- Gradients ----------------------------------------------------------------------------------

enum class Tangent : uint8_t { random, expanded, transposed, sliced, zero };

at::Tensor make_tangent(Tangent kind, const at::Tensor& like) {
  const auto options = like.options().requires_grad(false);
  const auto dims = like.dim();
  switch (kind) {
    case Tangent::zero: return at::zeros(like.sizes(), options);
    case Tangent::expanded: return at::randn({}, options).expand(like.sizes());
    case Tangent::transposed: {
      std::vector<int64_t> order, sizes;
      for (int64_t d = dims - 1; d >= 0; --d) {
        order.push_back(d);
        sizes.push_back(like.size(d));
      }
      return at::randn(sizes, options).permute(order);
    }
    case Tangent::sliced: {
      if (dims == 0) return at::randn({3}, options)[1];
      auto sizes = like.sizes().vec();
      sizes.back() = 2 * sizes.back() + 1;
      return at::randn(sizes, options).slice(-1, 1, c10::nullopt, 2);
    }
    case Tangent::random: break;
  }
  return at::randn(like.sizes(), options);
}

struct Ask {
  std::string name;
  Tangent tangent = Tangent::random;
  std::string root = {};    // one subject; empty: all
  std::string wanted = {};  // one subject; empty: all
  bool backward = false;    // through backward() and .grad
  bool retain = false;
  std::string doubled = {};  // a root whose double is differentiated
};

Subjects only(Subjects subjects, const std::string& name) {
  if (!name.empty()) std::erase_if(subjects, [&](const Subject& s) { return s.name != name; });
  return subjects;
}

List tensors_of(const Subjects& subjects) {
  List list;
  for (const auto& s : subjects) list.push_back(s.tensor);
  return list;
}

void gradient(const Run& run, const std::string& what, const at::Tensor& tensor, Record& record) {
  record.gradient(what, tensor, precision(run));
  if (!tensor.defined() || !is_strided(tensor)) return;
  record.note(what + " strides", text(tensor.strides()));
  record.note(what + " requires_grad", tensor.requires_grad());
}

// Runs a backward as described. Errors are recorded without their kind, since a compiled region
// words errors about freed buffers differently.
void differentiate(const Run& run, const Ask& ask, Record& record) {
  const Record::Scope scope(record, ask.name);
  const auto roots = only(run.roots(), ask.root);
  const auto wanted = only(run.wanted(), ask.wanted);
  if (roots.empty()) return record.note("roots", "none");
  torch::manual_seed(kTangentSeed);
  List tangents;
  for (const auto& r : roots) tangents.push_back(make_tangent(ask.tangent, r.tensor));
  auto starts = tensors_of(roots);
  for (size_t i = 0; i < roots.size(); ++i) {
    if (roots[i].name == ask.doubled) starts[i] = starts[i] * 2;
  }
  const auto kept = clone_all(tangents);
  record.attempt(
      "backward",
      [&] {
        if (ask.backward || wanted.empty()) {
          torch::autograd::backward(starts, tangents, ask.retain);
          for (const auto& w : wanted) {
            gradient(run, ".grad of " + w.name, w.tensor.unsafeGetTensorImpl()->grad(), record);
          }
          return;
        }
        const auto gradients =
            torch::autograd::grad(starts, tensors_of(wanted), tangents, ask.retain,
                                  /*create_graph=*/false, /*allow_unused=*/true);
        for (size_t i = 0; i < wanted.size(); ++i) {
          gradient(run, "gradient of " + wanted[i].name, gradients[i], record);
        }
      },
      /*kinds=*/false);
  generators(run, record);
  record.note("tangents are as they were", static_cast<bool>(same_bits(tangents, kept)));
}

std::vector<Ask> asks_for(const Run& run) {
  std::vector<Ask> asks = {{"all"},
                           {"backward()", Tangent::random, "", "", true},
                           {"expanded tangents", Tangent::expanded},
                           {"transposed tangents", Tangent::transposed},
                           {"sliced tangents", Tangent::sliced},
                           {"zero tangents", Tangent::zero}};
  const auto roots = run.roots(), wanted = run.wanted();
  if (roots.size() > 1) {
    for (const auto& r : roots) {
      asks.push_back({"from " + r.name, Tangent::random, r.name});
      asks.push_back({"expanded, from " + r.name, Tangent::expanded, r.name});
    }
  }
  if (wanted.size() > 1) {
    for (const auto& w : wanted) asks.push_back({"for " + w.name, Tangent::random, "", w.name});
  }
  return asks;
}

// ---- Exams --------------------------------------------------------------------------------------

using Examine = std::function<void(Run&, Record&)>;

// An exam of a run with one call.
Exam after_a_call(std::string name, Examine examine, std::vector<Examine> undisturbed = {}) {
  const auto called = [](Examine inner) -> Examine {
    return [inner = std::move(inner)](Run& run, Record& record) {
      if (run.call(record)) inner(run, record);
    };
  };
  for (auto& other : undisturbed) other = called(std::move(other));
  return {std::move(name), called(std::move(examine)), std::move(undisturbed)};
}

void retained(Run& run, bool free, Record& record) {
  differentiate(run, {"first", Tangent::random, "", "", false, true}, record);
  differentiate(run, {"second", Tangent::expanded, "", "", false, true}, record);
  differentiate(run, {"third", Tangent::random, "", "", true, !free}, record);
  differentiate(run, {"after the buffers were freed"}, record);
}

// Like a training loop: a loss of the results and a backward, repeated with the same world.
void repeated(Run& run, bool free, Record& record) {
  for (int i = 0; i < 3; ++i) {
    const Record::Scope scope(record, "call " + std::to_string(i));
    if (!run.call(record)) return;
    picture(run, record);
    const Record::Scope backward(record, "backward");
    record.attempt(
        "of a loss",
        [&] {
          at::Tensor loss;
          for (const auto& r : run.roots()) {
            auto term = (r.tensor * r.tensor).abs().sum().to(at::kDouble);
            loss = loss.defined() ? loss + term : term;
          }
          if (loss.defined()) loss.backward({}, /*retain_graph=*/!free);
        },
        /*kinds=*/false);
    for (const auto& w : run.wanted()) {
      gradient(run, ".grad of " + w.name, w.tensor.unsafeGetTensorImpl()->grad(), record);
    }
    generators(run, record);
  }
}

// Two calls before their backward passes, the older one first; or the same with retained graphs; or
// each backward right after its call.
enum class Passes : uint8_t { after_both, retained, each_after_its_call };
void two_forwards(Run& run, Passes passes, Record& record) {
  const bool after_both = passes != Passes::each_after_its_call;
  List first;
  const auto go_back = [&] {
    const Record::Scope scope(record, "call 1");
    record.attempt(
        "backward of call 0",
        [&] {
          List tangents;
          for (const auto& r : first) tangents.push_back(at::ones_like(r));
          if (!first.empty())
            torch::autograd::backward(first, tangents, passes != Passes::after_both);
        },
        /*kinds=*/false);
  };
  {
    const Record::Scope scope(record, "call 0");
    if (!run.call(record)) return;
    for (const auto& r : run.roots()) first.push_back(r.tensor);
  }
  if (!after_both) go_back();
  {
    const Record::Scope scope(record, "call 1");
    if (!run.call(record)) return;
  }
  if (after_both) go_back();
  const Record::Scope scope(record, "call 1");
  differentiate(run, {"backward of call 1", Tangent::random, "", "", true}, record);
}

void on_another_thread(const std::function<void()>& work) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

// The call on one thread, its backward on another.
void other_threads(Run& run, Record& record) {
  bool called = false;
  on_another_thread([&] { called = run.call(record); });
  if (!called) return;
  picture(run, record);
  on_another_thread([&] { differentiate(run, {"backward"}, record); });
}

// The objects that the call keeps alive, with its results and after these are gone.
void references(Run& run, Record& record) {
  differentiate(run, {"backward", Tangent::random, "", "", true, true}, record);
  run.forget();
  for (const auto& s : run.subjects()) {
    record.note("references to " + s.name, static_cast<int64_t>(s.tensor.use_count()));
  }
}

void without_grad(Run& run, Record& record) {
  const at::NoGradGuard no_grad;
  if (run.call(record)) picture(run, record);
}

// A write to a subject after the call, under no_grad or recorded by autograd, and its effect on the
// backward. In the undisturbed form, the backward runs first, on the values that the write would
// produce.
void write(Run& run, const std::string& name, bool with_grad, bool disturbed, Record& record) {
  const auto go_back = [&] {
    Ask ask = {"then"};
    ask.retain = !disturbed;
    if (with_grad && !disturbed) ask.doubled = name;
    differentiate(run, ask, record);
  };
  const auto write_it = [&] {
    for (const auto& s : only(run.subjects(), name)) {
      const c10::AutoGradMode mode(with_grad);
      record.attempt("the write", [&] { s.tensor.mul_(2); });
    }
    if (with_grad) picture(run, record);
  };
  if (disturbed) {
    write_it();
    go_back();
    return;
  }
  const auto state = generator_state();
  go_back();
  set_generator_state(state);
  write_it();
}

void add_writes(const Run& run, std::vector<Exam>& exams) {
  const bool has_roots = !run.roots().empty();
  for (const auto& s : run.subjects()) {
    if (!can_differentiate(s.tensor)) continue;
    const auto writes = [name = s.name](bool with_grad, bool disturbed) {
      return [=](Run& r, Record& record) { write(r, name, with_grad, disturbed, record); };
    };
    exams.push_back(
        after_a_call("a write to " + s.name, writes(true, true), {writes(true, false)}));
    if (!has_roots) continue;
    exams.push_back(after_a_call("a write under no_grad to " + s.name, writes(false, true),
                                 {writes(false, false)}));
  }
}

}  // namespace

Run::Run(const Case& c, World world, Step& step) : case_(c), world_(std::move(world)), step_(step) {
  for (const auto& s : outside()) histories_.push_back(history(s.tensor));
}

void Run::seed() const { torch::manual_seed(kCallSeed + static_cast<uint64_t>(calls_)); }

void Run::forget() {
  results_ = {};
  world_.kept = at::Tensor();
}

void Run::call_or_throw() {
  if (case_.between) case_.between(world_, calls_);
  seed();
  ++calls_;
  results_ = {};
  const auto call = [&] { results_ = step_.call(world_); };
  if (case_.around) {
    case_.around(call);
  } else {
    call();
  }
  note_fresh_versions();
}

void Run::note_fresh_versions() {
  fresh_versions_.clear();
  const auto outside = this->outside();
  for (const auto& result : results_.tensors) {
    const bool counts = result.defined() && !result.is_inference();
    const bool fresh =
        counts && std::none_of(outside.begin(), outside.end(), [&](const Subject& s) {
          return torch_compat::same_version_counter(s.tensor, result);
        });
    fresh_versions_.push_back(fresh ? result._version() : 0);
  }
}

int64_t Run::version_of(const at::Tensor& tensor) const {
  for (size_t i = 0; i < results_.tensors.size(); ++i) {
    if (results_.tensors[i].is_same(tensor)) return tensor._version() - fresh_versions_[i];
  }
  return tensor._version();
}

bool Run::call(Record& record) {
  return record.attempt("the call", [&] { call_or_throw(); });
}

std::vector<Subject> Run::outside() const {
  Subjects subjects;
  const auto add = [&](const std::string& kind, const List& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].defined()) subjects.push_back({kind + std::to_string(i), list[i]});
    }
  };
  add("input ", world_.inputs);
  add("held ", world_.held);
  add("other ", world_.others);
  if (world_.module) {
    for (const auto& p : world_.module->named_parameters()) {
      subjects.push_back({"parameter " + p.key(), p.value()});
    }
    for (const auto& b : world_.module->named_buffers()) {
      subjects.push_back({"buffer " + b.key(), b.value()});
    }
  }
  return subjects;
}

std::vector<Subject> Run::subjects() const {
  auto subjects = outside();
  for (size_t i = 0; i < results_.tensors.size(); ++i) {
    const auto& result = results_.tensors[i];
    if (result.defined()) subjects.push_back({"result " + std::to_string(i), result});
  }
  return subjects;
}

std::vector<Subject> Run::roots() const {
  Subjects roots;
  const auto subjects = this->subjects();
  for (size_t i = 0; i < subjects.size(); ++i) {
    const auto& tensor = subjects[i].tensor;
    if (!tensor.requires_grad()) continue;
    const auto now = history(tensor);
    // A view made under no_grad reports requires_grad if its base has it, but has no history.
    if (now == nullptr && tensor.is_view()) continue;
    if (i < histories_.size() && now == histories_[i]) continue;
    roots.push_back(subjects[i]);
  }
  return roots;
}

bool Run::differentiates_outside() const {
  const auto outside = this->outside();
  const auto is_outside = [&](const at::TensorBase& tensor) {
    return std::any_of(outside.begin(), outside.end(),
                       [&](const Subject& s) { return s.tensor.is_same(tensor); });
  };
  const auto roots = this->roots();
  if (std::any_of(roots.begin(), roots.end(),
                  [&](const Subject& root) { return is_outside(root.tensor); })) {
    return true;
  }
  return std::any_of(results_.tensors.begin(), results_.tensors.end(), [&](const at::Tensor& r) {
    return r.defined() && r.requires_grad() &&
           (is_outside(r) || (r.is_view() && is_outside(r._base())));
  });
}

std::vector<Subject> Run::wanted() const {
  Subjects wanted;
  for (const auto& s : outside()) {
    const bool again = std::any_of(wanted.begin(), wanted.end(), [&](const Subject& other) {
      return other.tensor.is_same(s.tensor);
    });
    const auto& inner = case_.inner;
    if (again || std::find(inner.begin(), inner.end(), s.name) != inner.end()) continue;
    if (s.tensor.requires_grad()) wanted.push_back(s);
  }
  return wanted;
}

void picture(const Run& run, Record& record) {
  const auto subjects = run.subjects();
  for (const auto& s : subjects) describe(run, subjects, s, record);
  const auto& results = run.results();
  record.note("number of results", static_cast<int64_t>(results.tensors.size()));
  std::string host;
  for (const auto& value : results.host) host += show(value) + ", ";
  record.note("host values of the result", host);
  record.note("grad mode", at::GradMode::is_enabled());
  if (run.world().observe) record.note("what else there is to see", run.world().observe());
  generators(run, record);
}

std::vector<Exam> exams_for(const Run& run) {
  // Selects by whether something is written or freed before a backward that may need it.
  const auto by = [](void (*examine)(Run&, bool, Record&), bool disturbed) {
    return [=](Run& r, Record& record) { examine(r, disturbed, record); };
  };
  std::vector<Exam> exams = {
      {"after the call",
       [](Run& r, Record& record) {
         r.call(record);
         picture(r, record);
       }},
      after_a_call("memory", memory),
      {"called under no_grad", without_grad},
      {kRepeated, by(repeated, true), {by(repeated, false)}},
      {"on other threads", other_threads},
      after_a_call("after the results are gone", references),
  };
  const auto roots = run.roots();
  if (!roots.empty()) {
    for (const auto& ask : asks_for(run)) {
      exams.push_back(after_a_call(
          "gradients", [ask](Run& r, Record& record) { differentiate(r, ask, record); }));
    }
    exams.push_back(after_a_call("retain_graph", by(retained, true), {by(retained, false)}));
    const auto passes = [](Passes p) {
      return [p](Run& r, Record& record) { two_forwards(r, p, record); };
    };
    exams.push_back({"two forwards",
                     passes(Passes::after_both),
                     {passes(Passes::retained), passes(Passes::each_after_its_call)}});
  }
  add_writes(run, exams);
  return exams;
}

}  // namespace antegrad::testing
