#include "compile/lowering.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "compile/kernel_proof.h"
#include "graph/generated_node.h"
#include "graph/hash.h"
#include "graph/text.h"
#include "kernels/build.h"
#include "kernels/proofs.h"
#include "log/log.h"
#include "lower/c_printer.h"
#include "lower/level.h"
#include "passes/reinplace.h"
#include "runtime/fork_gate.h"
#include "runtime/program.h"
#include "torch_compat/device_model.h"

namespace antegrad::compiler {
namespace {

using kernels::Built;
using kernels::Compiler;
using kernels::Outcome;
using kernels::RunTimes;

// What eager runs on this machine, as ATen's switches are now; nothing if kernels of that kind are
// not generated.
std::optional<lower::EagerCpu> eager_cpu() {
  auto name = at::get_cpu_capability();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto capability = lower::capability_from_name(name);
  if (!capability) return std::nullopt;
  const bool onednn = at::globalContext().userEnabledMkldnn();
  return lower::EagerCpu{.capability = *capability,
                         .onednn = onednn ? lower::onednn_of_this_cpu() : lower::OneDnn::off,
                         .threads = at::get_num_threads()};
}

const Outcome<Compiler>& system_compiler() {
  static const auto found = kernels::find_compiler("", std::chrono::seconds(10));
  return found;
}

std::function<void(lower::Kernel&)>& kernel_fault() {
  static auto* const fault = new std::function<void(lower::Kernel&)>();
  return *fault;
}

std::optional<RunTimes>& invented_times() {
  static std::optional<RunTimes> times;
  return times;
}

kernels::Source source_of(lower::Kernel kernel, lower::Capability capability) {
  if (kernel_fault()) kernel_fault()(kernel);
  static const auto made_for = fmt::format("{}, {}", torch_compat::cpu_and_libtorch(),
                                           to_string(hash_of_bytes(at::show_config())));
  return {.text = lower::c_source(std::span(&kernel, 1), lower::c_target(capability)),
          .functions = {kernel.name},
          .capability = capability,
          .numerics = kernels::Numerics::exact,  // at each level: what is fused is spelt out
          .needed = {"libtorch_cpu.so"},
          .made_for = made_for};
}

std::string text_of(const kernels::Failure& failure) {
  return fmt::format("{}: {}", kernels::to_string(failure.reason), failure.text);
}

void warn_once(const std::string& failure) {
  static std::set<std::string> known;
  static std::mutex mutex;
  const runtime::ForkSafeLock lock(mutex);
  if (!known.insert(failure).second) return;
  log(
      Log::kernels, [&] { return "libtorch's kernels run instead of generated ones: " + failure; },
      LogLevel::warning);
}

// What is known in this process about kernels on this machine.
class Verdicts {
 public:
  static Verdicts& of_process() {
    static auto* const verdicts = new Verdicts();
    return *verdicts;
  }

  // Why a kernel, or a run of it, is not used; empty if nothing is known.
  std::string against(const Hash128& key) const {
    const runtime::ForkSafeLock lock(mutex_);
    const auto found = refused_.find(key);
    return found == refused_.end() ? "" : found->second;
  }
  void refuse(const Hash128& key, std::string reason) {
    const runtime::ForkSafeLock lock(mutex_);
    refused_.emplace(key, std::move(reason));
  }
  void forget() {
    const runtime::ForkSafeLock lock(mutex_);
    refused_.clear();
    proofs_.emplace("");
  }
  std::optional<RunTimes> proven(const Hash128& proof) {
    const runtime::ForkSafeLock lock(mutex_);
    return proofs().find(proof);
  }
  void note_proof(const Hash128& proof, const RunTimes& times) {
    const runtime::ForkSafeLock lock(mutex_);
    proofs().add(proof, times);
  }

 private:
  kernels::Proofs& proofs() {
    if (!proofs_) proofs_.emplace(kernels::folder_of({}));
    return *proofs_;
  }

  mutable std::mutex mutex_;
  std::map<Hash128, std::string> refused_;
  std::optional<kernels::Proofs> proofs_;
};

lower::Level level_of(Lowering lowering) {
  return lowering == Lowering::close ? lower::Level::close : lower::Level::exact;
}

// What is proven of a kernel: equal code may serve at both levels.
Hash128 claim_of(const lower::GroupKernel& kernel, lower::Level level) {
  if (level == lower::Level::exact) return kernel.key;
  return hash_of_bytes(to_string(kernel.key) + " close");
}

// A kernel with its arguments, the number of threads, and the memory that it reads and writes: what
// decides which of its paths run, and what they return.
Hash128 run_of(const Graph& graph, const lower::GroupKernel& kernel, lower::Level level) {
  std::string text = fmt::format("{} {} {}", to_string(claim_of(kernel, level)),
                                 fmt::join(kernel.numbers, " "), at::get_num_threads());
  for (const auto& buffer : kernel.buffers) text += " " + value_text(graph.value(buffer.value));
  return hash_of_bytes(text);
}

// The run, for the verdict that it is slow, with which who keeps slow kernels does not agree.
Hash128 slow(const Hash128& run) { return hash_of_bytes(to_string(run) + " slow"); }

// A run with all that its code is made from.
Hash128 proof_key(const Hash128& run, const kernels::Source& source, const Compiler& compiler) {
  return hash_of_bytes(fmt::format("{} {} {} {} {}", to_string(run),
                                   to_string(hash_of_bytes(source.text)), source.made_for,
                                   fmt::join(compiler.command, " "), compiler.version));
}

runtime::GeneratedKernel callable(const lower::GroupKernel& made, const Built& built) {
  const bool rows = made.kernel.space != lower::Space::elements;
  return {.library = built.library,
          .function = built.functions.at(0),
          .name = made.kernel.name,
          .numbers = made.numbers,
          .buffers = made.buffers,
          .bounds = made.bounds,
          .threads = rows ? at::get_num_threads() : 0,
          .elements = lower::parallel_size(made.kernel, made.numbers.data()),
          .split = made.split};
}

// One attempt to lower a graph. Kernels that cannot be made, or that do not prove themselves, are
// refused for the next one.
class Attempt {
 public:
  Attempt(const Graph& graph, const ops::AttrTables& tables, const lower::EagerCpu& cpu,
          const Compiler& compiler, const LoweringRules& rules)
      : graph_(graph),
        tables_(tables),
        cpu_(cpu),
        compiler_(compiler),
        rules_(rules),
        level_(level_of(rules.lowering)) {}

  // Nothing if kernels were refused.
  std::optional<LoweredGraph> run() {
    const auto objection = [&](const lower::GroupKernel& kernel) {
      const auto run = run_of(graph_, kernel, level_);
      for (const auto& key : {claim_of(kernel, level_), run}) {
        if (auto reason = verdicts_.against(key); !reason.empty()) {
          return lower::Objection{std::move(reason)};
        }
      }
      if (rules_.keep_slow_kernels) return lower::Objection();
      return lower::Objection{verdicts_.against(slow(run)), /*divides=*/true};
    };
    auto lowered = lower::kernel_graph(graph_, cpu_, objection, level_);
    LoweredGraph result{.graph = std::move(lowered.graph), .refused = std::move(lowered.refused)};
    std::vector<kernels::Source> sources;
    for (const auto& made : lowered.kernels) {
      sources.push_back(source_of(made.kernel.kernel, cpu_.capability));
    }
    const auto built = kernels::build(sources, compiler_, {});
    for (size_t i = 0; i < built.size(); ++i) {
      if (!built[i])
        refuse(claim_of(lowered.kernels[i].kernel, level_), text_of(built[i].failure()));
    }
    if (refused_) return std::nullopt;
    result.kernels.resize(built.size());
    for (const auto& node : result.graph.nodes) {
      if (!is_generated(node)) continue;
      const auto place = place_of_kernel(node);
      const auto& [nodes, kernel] = lowered.kernels[place];
      auto& made = result.kernels[place] = callable(kernel, *built[place]);
      made.nodes = std::make_shared<const runtime::Program>(alone(nodes, node), tables_);
      const auto times = prove(result.graph, node, lowered.kernels[place], made, sources[place]);
      result.reports.push_back(report_of(result.graph, node, nodes, made, times));
      if (times.kernel > times.library) log_slow(result.reports.back());
    }
    if (refused_) return std::nullopt;
    return result;
  }

 private:
  // With in-place nodes, as they would be without kernels: they show in strides of dimensions of
  // one element.
  Graph alone(const std::vector<int32_t>& nodes, const Node& kernel) const {
    return reinplace(lower::group_alone(graph_, nodes, kernel));
  }

  void refuse(const Hash128& key, std::string reason, bool warns = true) {
    refused_ = true;
    if (warns) warn_once(reason);
    verdicts_.refuse(key, std::move(reason));
  }

  // The times of the kernel, which is refused if it is wrong or slow.
  RunTimes prove(const Graph& lowered, const Node& node, const lower::KernelOfGroup& group,
                 const runtime::GeneratedKernel& made, const kernels::Source& source) {
    const auto run = run_of(lowered, group.kernel, level_);
    const auto key = proof_key(run, source, compiler_);
    auto known = verdicts_.proven(key);
    if (!known) {
      std::optional<runtime::Program> in_float64;
      if (level_ == lower::Level::close) {
        in_float64.emplace(lower::in_float64(lower::group_alone(graph_, group.nodes, node)),
                           tables_);
      }
      auto proof = proof_of(lowered, node, made, in_float64 ? &*in_float64 : nullptr);
      if (!proof.difference.empty()) {
        // A close kernel that is less accurate than libtorch's is no sign of a fault.
        refuse(claim_of(group.kernel, level_), std::move(proof.difference),
               /*warns=*/level_ == lower::Level::exact);
        return {};
      }
      if (!proof.other_strides.empty()) {
        refuse(run, std::move(proof.other_strides), /*warns=*/false);
        return {};
      }
      known = invented_times().value_or(proof.times);
      verdicts_.note_proof(key, *known);
    }
    if (known->kernel > known->library && !rules_.keep_slow_kernels) {
      refuse(slow(run), "libtorch's kernels are faster here", /*warns=*/false);
    }
    return *known;
  }

  void log_slow(const KernelReport& report) const {
    log(
        Log::kernels,
        [&] {
          return fmt::format("{}: a kernel of {} takes {:.1f} us, libtorch's {:.1f} us",
                             graph_.name, fmt::join(report.operators, ", "), report.microseconds,
                             report.library_microseconds);
        },
        LogLevel::debug);
  }

  KernelReport report_of(const Graph& lowered, const Node& node, const std::vector<int32_t>& group,
                         const runtime::GeneratedKernel& made, const RunTimes& times) const {
    KernelReport report{made.name, node.phase == Phase::forward ? "forward" : "backward"};
    for (const auto position : group) {
      const auto& op = graph_.nodes[position].op;
      if (!op.traits().view) report.operators.push_back(op.name());
    }
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const auto id : *values) report.bytes += span_bytes(lowered.value(id).meta).constant();
    }
    report.microseconds = static_cast<double>(times.kernel) / 1e3;
    report.library_microseconds = static_cast<double>(times.library) / 1e3;
    return report;
  }

  const Graph& graph_;
  const ops::AttrTables& tables_;
  const lower::EagerCpu& cpu_;
  const Compiler& compiler_;
  const LoweringRules& rules_;
  const lower::Level level_;
  Verdicts& verdicts_ = Verdicts::of_process();
  bool refused_ = false;
};

}  // namespace

void set_kernel_fault(std::function<void(lower::Kernel&)> fault) {
  kernel_fault() = std::move(fault);
  Verdicts::of_process().forget();
}

void set_kernel_times(std::optional<RunTimes> times) {
  invented_times() = times;
  Verdicts::of_process().forget();
}

LoweredGraph lower_graph(Graph graph, const ops::AttrTables& tables, const LoweringRules& rules) {
  if (rules.lowering == Lowering::off) return {std::move(graph)};
  const auto cpu = eager_cpu();
  if (!cpu) return {std::move(graph)};
  const auto& compiler = system_compiler();
  if (!compiler) {
    auto failure = text_of(compiler.failure());
    warn_once(failure);
    return {.graph = std::move(graph), .failure = std::move(failure)};
  }
  // Each attempt that fails refuses a kernel, so this ends.
  for (;;) {
    if (auto lowered = Attempt(graph, tables, *cpu, *compiler, rules).run())
      return std::move(*lowered);
  }
}

}  // namespace antegrad::compiler
