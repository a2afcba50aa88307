#include <antegrad/compile.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "capture/capture.h"
#include "compile/guards.h"
#include "compile/module_tree.h"
#include "compile/pipeline.h"
#include "compile/recapture.h"
#include "log/log.h"

namespace antegrad::detail {
namespace {

// One program with everything that a call needs.
struct Entry {
  compiler::GuardSet guards;
  std::shared_ptr<const runtime::Executable> executable;
  std::vector<HostValue> result_host;  // host leaves of the result, constants of the program
  ProgramReport report;
};
using Entries = std::vector<std::shared_ptr<const Entry>>;

const void* type_key(const BodyRef& body) { return reinterpret_cast<const void*>(body.run); }

}  // namespace

struct CompiledFunction::State {
  std::shared_ptr<void> callable;
  std::shared_ptr<const torch::nn::Module> module;
  Options options;

  std::atomic<std::shared_ptr<const Entries>> entries{std::make_shared<const Entries>()};
  std::atomic<int64_t> compiled_calls{0};
  mutable std::mutex mutex;  // guards compiling, and what is below
  int64_t eager_calls = 0;
  std::map<std::string, int64_t> eager_reasons;
  std::vector<std::string> recompiles;

  std::shared_ptr<const Entry> find(const Leaves& arguments, const BodyRef& body) const {
    const auto present = entries.load(std::memory_order_acquire);
    for (const auto& entry : *present) {
      if (entry->guards.holds(arguments, type_key(body))) return entry;
    }
    return nullptr;
  }

  std::shared_ptr<const Entry> compile_entry(const Leaves& arguments, const BodyRef& body) const;
  void note_recompile(const Leaves& arguments, const BodyRef& body);
  void note_eager(const std::string& reason) {
    ++eager_calls;
    ++eager_reasons[reason];
  }
};

std::shared_ptr<const Entry> CompiledFunction::State::compile_entry(const Leaves& arguments,
                                                                    const BodyRef& body) const {
  const auto tree = std::make_shared<const compiler::ModuleTree>(module);
  const compiler::Callable described{callable, body, module, options.name};
  std::vector<HostValue> result_host;
  auto captured = capture::capture(
      compiler::request_for(described, arguments.tensors, arguments.host, tree, result_host));
  compiler::GuardSet guards(captured, arguments, type_key(body), tree);
  const auto lifted = static_cast<int64_t>(guards.lifted_count());
  auto compiled = compiler::compile_joint(std::move(captured), options,
                                          compiler::make_recapture(described, arguments, tree));
  compiled.report.lifted_tensors = lifted;
  log(Artifact::guards, [&] {
    return options.name + ": " + std::to_string(arguments.tensors.size()) + " arguments, " +
           std::to_string(lifted) + " lifted tensors";
  });
  return std::make_shared<const Entry>(Entry{std::move(guards), std::move(compiled.executable),
                                             std::move(result_host), std::move(compiled.report)});
}

void CompiledFunction::State::note_recompile(const Leaves& arguments, const BodyRef& body) {
  const auto present = entries.load();
  if (present->empty()) return;
  std::string why;
  present->back()->guards.holds(arguments, type_key(body), &why);
  recompiles.push_back(why);
  log(Artifact::recompile, [&] { return options.name + ": " + why; });
}

CompiledFunction::CompiledFunction(std::shared_ptr<void> callable,
                                   std::shared_ptr<const torch::nn::Module> module, Options options)
    : state_(std::make_shared<State>()) {
  if (options.max_programs < 1) {
    throw OptionError(ErrorText{"max_programs of at least 1", std::to_string(options.max_programs),
                                "raise it, or do not compile the callable"});
  }
  if (const char* dump = std::getenv("ANTEGRAD_DUMP");
      dump != nullptr && options.dump_dir.empty()) {
    options.dump_dir = dump;
  }
  state_->callable = std::move(callable);
  state_->module = std::move(module);
  state_->options = std::move(options);
}
CompiledFunction::~CompiledFunction() = default;

std::optional<Leaves> CompiledFunction::call(const Leaves& arguments, const BodyRef& body,
                                             bool run) {
  if (capture::capturing()) {
    throw NestedCaptureError(
        "", {"a compiled callable that calls plain functions",
             "the compiled callable '" + state_->options.name + "' called inside another one",
             "compile the outer one only"});
  }
  auto entry = state_->find(arguments, body);
  if (!entry) {
    const std::lock_guard lock(state_->mutex);
    entry = state_->find(arguments, body);  // another thread may have compiled it meanwhile
    if (!entry) {
      const auto present = state_->entries.load();
      if (static_cast<int64_t>(present->size()) >= state_->options.max_programs) {
        state_->note_eager("more than " + std::to_string(state_->options.max_programs) +
                           " programs (Options::max_programs)");
        return std::nullopt;
      }
      state_->note_recompile(arguments, body);
      try {
        entry = state_->compile_entry(arguments, body);
      } catch (const CaptureError& error) {
        if (state_->options.on_refusal == OnRefusal::error) throw;
        state_->note_eager(error.what());
        return std::nullopt;
      }
      auto grown = std::make_shared<Entries>(*present);
      grown->push_back(entry);
      state_->entries.store(std::move(grown), std::memory_order_release);
    }
  }
  if (!run) return Leaves{};
  state_->compiled_calls.fetch_add(1, std::memory_order_relaxed);
  return Leaves{entry->executable->call(entry->guards.primals(arguments)), entry->result_host};
}

Report CompiledFunction::report() const {
  const std::lock_guard lock(state_->mutex);
  Report report;
  report.name = state_->options.name;
  report.compiled_calls = state_->compiled_calls.load();
  report.eager_calls = state_->eager_calls;
  report.eager_reasons = state_->eager_reasons;
  report.recompiles = state_->recompiles;
  for (const auto& entry : *state_->entries.load()) report.programs.push_back(entry->report);
  return report;
}

void CompiledFunction::reset() {
  const std::lock_guard lock(state_->mutex);
  state_->entries.store(std::make_shared<const Entries>());
}

}  // namespace antegrad::detail
