#include <antegrad/compile.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>

#include "capture/capture.h"
#include "compile/audit.h"
#include "compile/capture_call.h"
#include "compile/eager_check.h"
#include "compile/entry.h"
#include "compile/pipeline.h"
#include "graph/text.h"
#include "guards/host_values.h"
#include "log/log.h"
#include "options/defaults.h"
#include "options/table.h"
#include "partition/ratio_budget.h"
#include "partition/split.h"
#include "passes/custom_pass.h"
#include "passes/pass_list.h"
#include "runtime/fork_gate.h"
#include "runtime/published.h"

namespace antegrad::detail {

using compiler::DeclaredValues;
using compiler::Entry;

// What is there to choose from; immutable, exchanged as a whole.
struct Programs {
  std::vector<HostGuard> guards;  // declared host state
  std::vector<std::shared_ptr<const Entry>> entries;
};

namespace {

// One call: what decides which program it takes.
struct Call {
  const Leaves& arguments;
  const BodyRef& body;
  std::vector<DeclaredValues> declared;
  std::vector<ops::Answer> answers = {};  // to questions about data, as far as they are known
  std::shared_ptr<const HookPair> hooks = current_hooks();  // of this thread's scope

  const void* type_key() const { return reinterpret_cast<const void*>(body.run); }

  // Hooks that are part of a program; null where there are none, or they run eagerly.
  std::shared_ptr<const HookPair> inlined() const {
    return hooks && hooks->options.inlineable ? hooks : nullptr;
  }
  std::shared_ptr<const HookPair> eager_hooks() const {
    return hooks && !hooks->options.inlineable ? hooks : nullptr;
  }
  bool hooks_fit(const Entry& entry) const {
    const auto* now = hooks && hooks->options.inlineable ? hooks.get() : nullptr;
    if (now == nullptr || entry.hooks == nullptr) return now == entry.hooks.get();
    return now->key == entry.hooks->key;
  }

  bool fits(const Entry& entry, std::string* why = nullptr) const {
    if (!hooks_fit(entry)) {
      if (why != nullptr) *why = "hooks on saved tensors are others";
      return false;
    }
    for (size_t i = 0; i < declared.size(); ++i) {
      if (guards::same_host(declared[i], entry.declared[i])) continue;
      if (why != nullptr) {
        *why = "guard " + std::to_string(i) + " was " + guards::host_text(entry.declared[i]) +
               ", is " + guards::host_text(declared[i]);
      }
      return false;
    }
    return answers_fit(entry, why) && entry.guards.holds(arguments, type_key(), why);
  }

  bool answers_fit(const Entry& entry, std::string* why) const {
    const auto& questions = entry.questions;
    for (size_t i = 0; i < answers.size(); ++i) {
      if (i < questions.size() && questions[i].assumed == answers[i]) continue;
      if (why != nullptr) *why = other_answer(entry, i);
      return false;
    }
    return true;
  }

  std::string other_answer(const Entry& entry, size_t number) const {
    const auto is = ops::to_text(answers[number]);
    if (number >= entry.questions.size()) return "data were not asked what is now " + is;
    const auto& was = entry.questions[number];
    const auto raw = entry.raw->unpack();
    const auto& node = raw.nodes[static_cast<size_t>(was.node)];
    return "what data answer to " + node_text(raw, node) + " was " + ops::to_text(was.assumed) +
           ", is " + is;
  }

  std::shared_ptr<const Entry> find(const Programs& programs) const {
    for (const auto& entry : programs.entries) {
      if (fits(*entry)) return entry;
    }
    return nullptr;
  }
};

Leaves run_program(const Entry& entry, const Leaves& arguments,
                   const std::shared_ptr<const HookPair>& eager_hooks) {
  return {entry.executable->call(entry.guards.primals(arguments), eager_hooks), entry.result_host};
}

std::vector<DeclaredValues> evaluate(const std::vector<HostGuard>& guards) {
  std::vector<DeclaredValues> values;
  for (const auto& guard : guards) values.push_back(guard());
  return values;
}

}  // namespace

struct CompiledFunction::State {
  std::shared_ptr<void> callable;
  std::shared_ptr<const torch::nn::Module> module;
  Options options;

  runtime::Published<Programs> programs;
  std::atomic<int64_t> compiled_calls{0};
  std::atomic<int64_t> checks_left{0};  // Options::check_against_eager
  // Held while the callable is captured, by whoever needs a capture.
  const std::shared_ptr<std::mutex> alone = std::make_shared<std::mutex>();
  mutable std::mutex mutex;  // lets one change `programs`, audit or check; guards what is below
  int64_t eager_calls = 0;
  int64_t audits = 0;
  int64_t checked_calls = 0;
  std::map<std::string, int64_t> eager_reasons;
  std::vector<std::string> recompiles;

  /// A program for a call that none fitted; null when the call must run eagerly.
  std::shared_ptr<const Entry> make_program(const Call& call, bool& captured_now);

  compiler::Callable callable_of(const Call& call) const {
    return {options.name, callable, call.body, module, alone, options.cross_check_shapes};
  }
  compiler::CapturedCall capture(const Call& call, const std::vector<ops::Answer>& answers,
                                 const std::vector<at::Tensor>& held = {}) const {
    return compiler::capture_call(callable_of(call), call.arguments, {{}, answers}, held);
  }
  std::shared_ptr<const Entry> compile(const Call& call) const;
  void audit(const Entry& entry, int64_t number, const Call& call);
  void check(const Entry& entry, const Call& call);
  void add(std::shared_ptr<const Entry> entry);
  void drop(const Entry& entry);
  void note_recompile(const Call& call);
  void note_eager(const std::string& reason) {
    ++eager_calls;
    ++eager_reasons[reason];
  }
  // While `error` is handled.
  void refuse(const CaptureError& error) {
    if (options.on_refusal == OnRefusal::error) throw;
    note_eager(error.what());
  }
};

std::shared_ptr<const Entry> CompiledFunction::State::compile(const Call& call) const {
  auto [captured, result_host, modules] = capture(call, call.answers);
  const auto raw = std::make_shared<const PackedGraph>(captured.joint);
  auto tables = captured.tables;
  auto questions = captured.questions;
  guards::GuardSet guards(captured, call.arguments, call.type_key(), modules);
  const auto lifted = static_cast<int64_t>(guards.lifted_count());
  auto later = compiler::later_captures(callable_of(call), call.arguments, captured);
  auto compiled =
      compiler::compile_joint(std::move(captured), raw, options, std::move(later), call.inlined());
  compiled.report.lifted_tensors = lifted;
  log(Artifact::guards, [&] {
    return options.name + ": " + std::to_string(call.arguments.tensors.size()) + " arguments, " +
           std::to_string(lifted) + " lifted tensors, " + std::to_string(call.declared.size()) +
           " declared guards";
  });
  return std::shared_ptr<const Entry>(
      new Entry{std::move(guards), call.declared, call.inlined(), std::move(questions),
                std::move(compiled.executable), std::move(result_host), raw, std::move(tables),
                std::move(modules), std::move(compiled.report), std::move(compiled.record)});
}

std::shared_ptr<const Entry> CompiledFunction::State::make_program(const Call& call,
                                                                   bool& captured_now) {
  const runtime::ForkSafeLock lock(mutex);
  const auto present = programs.load();
  if (auto entry = call.find(*present)) return entry;  // another thread compiled it meanwhile
  if (static_cast<int64_t>(present->entries.size()) >= options.max_programs) {
    note_eager("more than " + std::to_string(options.max_programs) +
               " programs (Options::max_programs)");
    return nullptr;
  }
  note_recompile(call);
  try {
    auto entry = compile(call);
    add(entry);
    captured_now = true;
    return entry;
  } catch (const CaptureError& error) {
    refuse(error);
    return nullptr;
  }
}

void CompiledFunction::State::add(std::shared_ptr<const Entry> entry) {
  auto changed = std::make_shared<Programs>(*programs.load());
  changed->entries.push_back(std::move(entry));
  programs.store(std::move(changed));
}

void CompiledFunction::State::drop(const Entry& entry) {
  auto changed = std::make_shared<Programs>(*programs.load());
  std::erase_if(changed->entries, [&](const auto& other) { return other.get() == &entry; });
  programs.store(std::move(changed));
}

void CompiledFunction::State::audit(const Entry& entry, int64_t number, const Call& call) {
  const runtime::ForkSafeLock lock(mutex);
  ++audits;
  try {
    const auto held = entry.guards.primals(call.arguments);
    compiler::audit(entry, number, call.arguments,
                    [&] { return capture(call, ops::answers_of(entry.questions), held); });
  } catch (const HostStateError&) {
    drop(entry);
    throw;
  }
}

void CompiledFunction::State::check(const Entry& entry, const Call& call) {
  const runtime::ForkSafeLock lock(mutex);
  ++checked_calls;
  const compiler::EagerCheck check{
      options.name,
      call.arguments,
      compiler::held_tensors(entry, call.arguments),
      compiler::generators_of(entry, call.arguments),
      [&](const Leaves& leaves) {
        const runtime::ForkSafeLock lock(*alone);
        return call.body.run(call.body.callable, leaves);
      },
      [&](const Leaves& leaves) { return run_program(entry, leaves, call.eager_hooks()); },
  };
  check.run();
}

void CompiledFunction::State::note_recompile(const Call& call) {
  const auto present = programs.load();
  if (present->entries.empty()) return;
  std::string why;
  call.fits(*present->entries.back(), &why);
  recompiles.push_back(why);
  log(Artifact::recompile, [&] { return options.name + ": " + why; });
}

namespace {

void check_budget(const BudgetOptions& budget) {
  if (budget.share || budget.bytes > 0) return;
  throw OptionError(ErrorText{"a memory budget above 0 bytes", std::to_string(budget.bytes),
                              "set one with with_memory_budget(512_MiB)"});
}

}  // namespace

void CompiledFunction::save_graph(const std::string& file) const {
  const auto programs = state_->programs.load();
  if (programs->entries.empty()) {
    throw InputError(ErrorText{"a compiled callable that was called, or warmed up",
                               "one without a program", "call warmup() with arguments first"});
  }
  const auto& entry = *programs->entries.back();
  auto graph = entry.raw->unpack();
  auto record = entry.record;
  const auto& options = state_->options;
  if (!options.joint_custom_pass.empty() || !options.disabled_passes.empty()) {
    // The record names no passes: what comes of them is saved, so that a replay finds it.
    auto passes = compiler::pass_context(options);
    passes.dump_dir.clear();
    graph = run_joint_passes(std::move(graph), passes);
    record.choice.simplify = false;
  }
  std::ofstream stream(file, std::ios::binary);
  stream << to_text(GraphFile{graph, has_backward(graph) ? to_text(record) : ""});
  stream.close();
  if (!stream)
    throw InputError(ErrorText{"a file that can be written", file, "make its folder first"});
}

CompiledFunction::CompiledFunction(std::shared_ptr<void> callable,
                                   std::shared_ptr<const torch::nn::Module> module, Options options)
    : state_(std::make_shared<State>()) {
  check_options(options);
  check_custom_pass(options.joint_custom_pass);
  if (options.partition == Partitioner::budget) check_budget(options.budget);
  if (options.partition == Partitioner::min_cut) check_ratio(options.min_cut);
  // Options that are written in code leave this to who runs the program.
  if (options.dump_dir.empty()) options.dump_dir = environment_options().dump_dir;
  state_->callable = std::move(callable);
  state_->module = std::move(module);
  state_->options = std::move(options);
  state_->checks_left = state_->options.check_against_eager;
}
CompiledFunction::~CompiledFunction() = default;

std::optional<Leaves> CompiledFunction::call(const Leaves& arguments, const BodyRef& body,
                                             bool run) {
  auto& state = *state_;
  if (capture::capturing()) {
    throw NestedCaptureError(
        "", {"a compiled callable that calls plain functions",
             "the compiled callable '" + state.options.name + "' called inside another one",
             "compile the outer one only"});
  }
  auto programs = state.programs.load();
  Call call{arguments, body, evaluate(programs->guards)};
  while (true) {
    bool captured_now = false;
    auto entry = call.find(*programs);
    if (!entry) entry = state.make_program(call, captured_now);
    if (!entry) return std::nullopt;
    if (!run) return Leaves{};

    const auto number = entry->calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (compiler::audit_due(state.options.audit, number, captured_now)) {
      state.audit(*entry, number, call);
    }
    try {
      if (state.checks_left.load(std::memory_order_relaxed) > 0 && state.checks_left-- > 0) {
        state.check(*entry, call);
      }
      auto leaves = run_program(*entry, arguments, call.eager_hooks());
      state.compiled_calls.fetch_add(1, std::memory_order_relaxed);
      return leaves;
    } catch (runtime::OtherAnswer& other) {
      call.answers = std::move(other.answers);  // each time more are known
      programs = state.programs.load();
    }
  }
}

void CompiledFunction::refuse(const CaptureError& error) {
  const runtime::ForkSafeLock lock(state_->mutex);
  state_->refuse(error);
}

void CompiledFunction::add_guard(HostGuard guard) {
  const runtime::ForkSafeLock lock(state_->mutex);
  auto changed = std::make_shared<Programs>();
  changed->guards = state_->programs.load()->guards;
  changed->guards.push_back(std::move(guard));
  state_->programs.store(std::move(changed));
}

Report CompiledFunction::report() const {
  const runtime::ForkSafeLock lock(state_->mutex);
  Report report;
  report.name = state_->options.name;
  report.compiled_calls = state_->compiled_calls.load();
  report.eager_calls = state_->eager_calls;
  report.audits = state_->audits;
  report.checked_calls = state_->checked_calls;
  report.eager_reasons = state_->eager_reasons;
  report.recompiles = state_->recompiles;
  for (const auto& entry : state_->programs.load()->entries) {
    report.programs.push_back(entry->report);
  }
  return report;
}

void CompiledFunction::reset() {
  const runtime::ForkSafeLock lock(state_->mutex);
  auto empty = std::make_shared<Programs>();
  empty->guards = state_->programs.load()->guards;
  state_->programs.store(std::move(empty));
}

}  // namespace antegrad::detail
