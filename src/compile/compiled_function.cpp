#include <antegrad/compile.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <utility>

#include "capture/capture.h"
#include "check/audit.h"
#include "check/eager_check.h"
#include "compile/capture_call.h"
#include "compile/compile_logs.h"
#include "compile/entry.h"
#include "compile/number_check.h"
#include "compile/pipeline.h"
#include "compile/plan_partition.h"
#include "graph/analysis.h"
#include "graph/text.h"
#include "guards/program_cache.h"
#include "log/log.h"
#include "ops/number.h"
#include "options/defaults.h"
#include "options/table.h"
#include "passes/custom_pass.h"
#include "passes/pass_list.h"
#include "runtime/fork_gate.h"

namespace antegrad::detail {

using compiler::Entry;

namespace {

Leaves run_program(const Entry& entry, const Leaves& arguments,
                   const std::shared_ptr<const HookPair>& eager_hooks,
                   std::shared_ptr<runtime::StoppedCall> stopped = nullptr) {
  const auto& executable = *entry.executable;
  auto primals = entry.guards.primals(arguments);
  const bool is_step = !executable.plan().updates.empty();
  if (is_step && eager_hooks != nullptr) {
    throw HookError(ErrorText{"hooks on saved tensors that become part of a whole step",
                              "a scope of hooks that run eagerly",
                              "make them inlineable, or compile the loss alone"});
  }
  auto results = is_step ? executable.step(std::move(primals), std::move(stopped))
                         : executable.call(std::move(primals), eager_hooks, std::move(stopped));
  return {std::move(results), entry.result_host};
}

std::vector<guards::DeclaredValues> evaluate(const std::vector<HostGuard>& guards) {
  std::vector<guards::DeclaredValues> values;
  for (const auto& guard : guards) values.push_back(guard());
  return values;
}

// One call: the properties that select its program, and its arguments.
struct Call : guards::Call {
  Call(const Leaves& arguments, const BodyRef& body, const std::vector<HostGuard>& guards)
      : guards::Call{arguments, reinterpret_cast<const void*>(body.run), evaluate(guards)},
        body(body) {
    const auto& scope = current_hooks();
    if (scope) (scope->options.inlineable ? hooks : eager_hooks) = scope;
  }

  const BodyRef& body;
  std::shared_ptr<const HookPair> eager_hooks;  // hooks of this thread's scope; null for none
};

}  // namespace

static std::atomic<int64_t> next_frame{0};

struct CompiledFunction::State {
  std::shared_ptr<void> callable;
  std::shared_ptr<const torch::nn::Module> module;
  Options options;
  StepUpdate update;  // null where calls are no whole steps

  std::vector<HostGuard> guards;  // declared host state; constant while calls run
  guards::ProgramCache<Entry> programs;
  std::atomic<int64_t> compiled_calls{0};
  const int64_t frame = next_frame++;   // its number in structured traces
  mutable int64_t programs_made = 0;    // guarded by `mutex`
  guards::OneOffs one_offs;             // guarded by `mutex`
  std::atomic<int64_t> checks_left{0};  // Options::check_against_eager
  // Held during captures of the callable.
  const std::shared_ptr<std::mutex> alone = std::make_shared<std::mutex>();
  mutable std::mutex mutex;  // serialises changes, audits and checks; guards what follows
  int64_t eager_calls = 0;
  int64_t audits = 0;
  int64_t checked_calls = 0;
  std::map<std::string, int64_t> eager_reasons;
  bool warned_of_one_offs = false;

  /// Makes a program for a call that fits none; null if the call must run eagerly.
  std::shared_ptr<const Entry> make_program(const Call& call, bool& captured_now);

  compiler::Callable callable_of(const Call& call) const {
    return {options.name, callable, call.body, module, alone, options.cross_check_shapes, update};
  }
  guards::CapturedCall capture(const Call& call, const std::vector<ops::Answer>& answers,
                               const std::vector<bool>& fixed_numbers,
                               const std::vector<at::Tensor>& held = {}) const {
    return compiler::capture_call(callable_of(call), call.arguments,
                                  {{}, answers, /*has_data=*/true, fixed_numbers}, held);
  }
  /// Numbers that decided something in the newest program: they are likely to do so again.
  std::vector<bool> likely_fixed(const Call& call) const {
    const auto known = programs.entries();
    if (known->empty() || known->back()->guards.types() != call.types) return {};
    const auto& fixed = known->back()->guards.fixed_numbers();
    return fixed.size() == call.arguments.tensors.size() ? fixed : std::vector<bool>();
  }
  guards::CapturedCall capture_first(const Call& call, const Entry* like) const;
  /// `like` is a program for other sizes, or null.
  std::shared_ptr<Entry> compile(const Call& call, const Entry* like) const;
  std::shared_ptr<Entry> compile_if_worth_it(const Call& call, const std::string& why);
  void forget_programs() {
    programs.clear();
    one_offs.clear();
  }
  void audit(const Entry& entry, int64_t number, const Call& call);
  void check(const Entry& entry, const Call& call);
  void note_eager(const std::string& reason) {
    ++eager_calls;
    ++eager_reasons[reason];
  }
  // Call while `error` is handled.
  void refuse(const CaptureError& error) {
    if (options.on_refusal == OnRefusal::error) throw;
    note_eager(error.what());
  }
};

// Captures a call for a new program. Code of another language may look at the type of a number;
// then the capture differs from one with constants, which is used instead.
guards::CapturedCall CompiledFunction::State::capture_first(const Call& call,
                                                            const Entry* like) const {
  auto found = capture(call, call.answers, likely_fixed(call));
  if (call.body.collect == nullptr || like != nullptr) return found;
  const auto& tensors = call.arguments.tensors;
  std::vector<bool> numbers;
  for (const auto& tensor : tensors) numbers.push_back(ops::is_number(tensor));
  if (found.captured.numbers.fixed == numbers) return found;
  auto constants = capture(call, call.answers, numbers);
  return compiler::same_but_for_numbers(found.captured, constants.captured) ? found : constants;
}

std::shared_ptr<Entry> CompiledFunction::State::compile(const Call& call, const Entry* like) const {
  auto [captured, result_host, modules] = capture_first(call, like);
  const auto raw = std::make_shared<const PackedGraph>(captured.joint);
  // A tree that still holds is equal to the new one.
  const auto* like_guards = like == nullptr ? nullptr : &like->guards;
  if (like != nullptr && like_guards->module()->holds()) modules = like_guards->module();
  guards::Origin origin{{captured, call.arguments, call.types, modules, like_guards},
                        call.declared,
                        call.hooks,
                        captured.questions,
                        std::move(result_host),
                        raw,
                        captured.tables};
  const auto lifted = static_cast<int64_t>(origin.guards.lifted_count());
  auto later = compiler::later_captures(callable_of(call), call.arguments, captured);
  std::shared_ptr<compiler::Derivatives> derivatives;
  if (options.higher_derivatives) {
    derivatives = std::make_shared<compiler::Derivatives>(options, later.derive, raw);
    later.derivatives = derivatives->source();
  }
  auto compiled = compiler::compile_joint(
      std::move(captured), raw, options, std::move(later), call.hooks,
      like == nullptr ? nullptr : like->executable.get(), {frame, programs_made++});
  compiled.report.lifted_tensors = lifted;
  log(Log::guards, [&] {
    return options.name + ": " + std::to_string(call.arguments.tensors.size()) + " arguments, " +
           std::to_string(lifted) + " lifted tensors, " + std::to_string(call.declared.size()) +
           " declared guards";
  });
  return std::shared_ptr<Entry>(new Entry{std::move(origin),
                                          {},
                                          std::move(compiled.executable),
                                          std::move(compiled.report),
                                          std::move(compiled.misses),
                                          std::move(compiled.partition),
                                          std::move(compiled.record),
                                          std::move(compiled.plan),
                                          std::move(derivatives)});
}

// New sizes always get a program, also sizes that data answer. Other calls get one only if such
// programs are used again.
std::shared_ptr<Entry> CompiledFunction::State::compile_if_worth_it(const Call& call,
                                                                    const std::string& why) {
  const auto known = programs.entries();
  const auto like = std::find_if(known->rbegin(), known->rend(), [&](const auto& entry) {
    return entry->fits_but_for_sizes(call);
  });
  const bool new_sizes = like != known->rend();
  if (!new_sizes && !one_offs.worth_making()) {
    note_eager(fmt::format("the last {} programs ran once each", guards::OneOffs::kWatched));
    if (!std::exchange(warned_of_one_offs, true)) {
      TORCH_WARN("antegrad: ", options.name, " needs another program for each call, since ", why,
                 ". The last ", guards::OneOffs::kWatched,
                 " programs ran once each; calls that need a new one run eagerly from now on, and "
                 "every ",
                 guards::OneOffs::kRetry, "th of them is compiled.");
    }
    return nullptr;
  }
  if (!why.empty()) log(Log::recompiles, [&] { return options.name + ": " + why; });
  auto entry = compile(call, new_sizes ? like->get() : nullptr);
  if (!new_sizes) one_offs.made(entry->runs);
  return entry;
}

std::shared_ptr<const Entry> CompiledFunction::State::make_program(const Call& call,
                                                                   bool& captured_now) {
  const runtime::ForkSafeLock lock(mutex);
  try {
    const guards::CacheBounds bounds{options.max_programs, options.max_program_bytes};
    return programs.find_or_make(call, bounds, [&](const std::string& why) {
      captured_now = true;
      return compile_if_worth_it(call, why);
    });
  } catch (const CaptureError& error) {
    refuse(error);
    return nullptr;
  }
}

void CompiledFunction::State::audit(const Entry& entry, int64_t number, const Call& call) {
  const runtime::ForkSafeLock lock(mutex);
  ++audits;
  try {
    const auto held = entry.guards.primals(call.arguments);
    check::audit(options.name, entry, number, call.arguments, [&] {
      return capture(call, ops::answers_of(entry.questions), entry.guards.fixed_numbers(), held);
    });
  } catch (const HostStateError&) {
    programs.drop(entry);
    throw;
  }
}

void CompiledFunction::State::check(const Entry& entry, const Call& call) {
  const runtime::ForkSafeLock lock(mutex);
  ++checked_calls;
  const check::EagerCheck check{
      options.name,
      entry,
      call.arguments,
      [&](const Leaves& leaves) {
        const runtime::ForkSafeLock lock(*alone);
        return call.body.run(call.body.callable, leaves);
      },
      [&](const Leaves& leaves) { return run_program(entry, leaves, call.eager_hooks); },
  };
  check.run();
}

void CompiledFunction::save_graph(const std::string& file) const {
  const auto programs = state_->programs.entries();
  if (programs->empty()) {
    throw InputError(ErrorText{"a compiled callable that was called, or warmed up",
                               "one without a program", "call warmup() with arguments first"});
  }
  const auto& entry = *programs->back();
  auto graph = entry.raw->unpack();
  auto record = entry.record();
  const auto& options = state_->options;
  if (!options.joint_custom_pass.empty() || !options.disabled_passes.empty()) {
    // The record does not name passes, since their result is saved and a replay finds it.
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

std::string CompiledFunction::chrome_trace() const {
  ChromeTrace trace;
  const auto programs = state_->programs.entries();
  for (size_t i = 0; i < programs->size(); ++i) {
    const auto& entry = *(*programs)[i];
    const auto name = fmt::format("{} [{}]", state_->options.name, i);
    compiler::add_program(trace, name, entry.report, entry.partition(), entry.record().choice);
  }
  return trace.to_json().dump();
}

CompiledFunction::CompiledFunction(std::shared_ptr<void> callable,
                                   std::shared_ptr<const torch::nn::Module> module, Options options,
                                   StepUpdate update)
    : state_(std::make_shared<State>()) {
  check_log_settings();
  check_options(options);
  check_custom_pass(options.joint_custom_pass);
  const auto choice = choice_of(options);
  row_of(choice.partitioner).check(choice);
  // Without a folder in the options, the environment of the running process decides.
  if (options.dump_dir.empty()) options.dump_dir = environment_options().dump_dir;
  state_->callable = std::move(callable);
  state_->module = std::move(module);
  state_->options = std::move(options);
  state_->update = std::move(update);
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
  Call call(arguments, body, state.guards);
  std::shared_ptr<runtime::StoppedCall> stopped;
  while (true) {
    bool captured_now = false;
    auto entry = state.programs.find(call);
    if (!entry) entry = state.make_program(call, captured_now);
    if (!entry) return std::nullopt;
    if (!run) {
      state.programs.note_use(*entry);
      return Leaves{};
    }

    const auto number = entry->runs->started.fetch_add(1, std::memory_order_relaxed) + 1;
    if (check::audit_due(state.options.audit, number, captured_now)) {
      state.audit(*entry, number, call);
    }
    try {
      if (state.checks_left.load(std::memory_order_relaxed) > 0 && state.checks_left-- > 0) {
        state.check(*entry, call);
      }
      auto leaves = run_program(*entry, arguments, call.eager_hooks, std::move(stopped));
      state.compiled_calls.fetch_add(1, std::memory_order_relaxed);
      state.programs.note_use(*entry);
      return leaves;
    } catch (runtime::OtherAnswer& other) {
      entry->runs->stopped.fetch_add(1, std::memory_order_relaxed);
      call.answers = std::move(other.answers);  // more are known each time
      stopped = std::move(other.stopped);
    }
  }
}

void CompiledFunction::refuse(const CaptureError& error) {
  const runtime::ForkSafeLock lock(state_->mutex);
  state_->refuse(error);
}

void CompiledFunction::add_guard(HostGuard guard) {
  const runtime::ForkSafeLock lock(state_->mutex);
  state_->guards.push_back(std::move(guard));
  state_->forget_programs();
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
  const auto& misses = state_->programs.misses();
  report.recompiles.assign(misses.begin(), misses.end());
  report.evictions = state_->programs.evictions();
  for (const auto& entry : *state_->programs.entries()) {
    report.programs.push_back(entry->report_now());
    const auto derived = entry->derivative_reports();
    report.programs.insert(report.programs.end(), derived.begin(), derived.end());
  }
  return report;
}

int64_t CompiledFunction::frame() const { return state_->frame; }

void CompiledFunction::reset() {
  const runtime::ForkSafeLock lock(state_->mutex);
  state_->forget_programs();
}

}  // namespace antegrad::detail
