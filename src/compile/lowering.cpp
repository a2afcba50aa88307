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
#include "graph/hash.h"
#include "graph/text.h"
#include "kernels/build.h"
#include "kernels/proofs.h"
#include "log/log.h"
#include "lower/c_printer.h"
#include "passes/reinplace.h"
#include "runtime/fork_gate.h"
#include "runtime/program.h"
#include "torch_compat/device_model.h"

namespace antegrad::compiler {
namespace {

using kernels::Built;
using kernels::Compiler;
using kernels::Outcome;

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

kernels::Source source_of(lower::Kernel kernel, lower::Capability capability) {
  if (kernel_fault()) kernel_fault()(kernel);
  static const auto made_for = fmt::format("{}, {}", torch_compat::cpu_and_libtorch(),
                                           to_string(hash_of_bytes(at::show_config())));
  return {.text = lower::c_source(std::span(&kernel, 1), lower::c_target(capability)),
          .functions = {kernel.name},
          .capability = capability,
          .numerics = kernels::Numerics::exact,
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
  bool is_proven(const Hash128& proof) {
    const runtime::ForkSafeLock lock(mutex_);
    return proofs().has(proof);
  }
  void note_proof(const Hash128& proof) {
    const runtime::ForkSafeLock lock(mutex_);
    proofs().add(proof);
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

// A kernel with its arguments, the number of threads, and the memory that it reads and writes: what
// decides which of its paths run, and what they return.
Hash128 run_of(const Graph& graph, const lower::GroupKernel& kernel) {
  std::string text = fmt::format("{} {} {}", to_string(kernel.key), fmt::join(kernel.numbers, " "),
                                 at::get_num_threads());
  for (const auto& buffer : kernel.buffers) text += " " + value_text(graph.value(buffer.value));
  return hash_of_bytes(text);
}

// The same with all that its code is made from.
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
          const Compiler& compiler)
      : graph_(graph), tables_(tables), cpu_(cpu), compiler_(compiler) {}

  // Nothing if kernels were refused.
  std::optional<LoweredGraph> run() {
    auto lowered = lower::kernel_graph(graph_, cpu_, [&](const lower::GroupKernel& kernel) {
      auto reason = verdicts_.against(kernel.key);
      return reason.empty() ? verdicts_.against(run_of(graph_, kernel)) : reason;
    });
    LoweredGraph result{std::move(lowered.graph), {}, std::move(lowered.refused)};
    std::vector<kernels::Source> sources;
    for (const auto& made : lowered.kernels) {
      sources.push_back(source_of(made.kernel.kernel, cpu_.capability));
    }
    const auto built = kernels::build(sources, compiler_, {});
    for (size_t i = 0; i < built.size(); ++i) {
      if (!built[i]) refuse(lowered.kernels[i].kernel.key, text_of(built[i].failure()));
    }
    if (refused_) return std::nullopt;
    result.kernels.resize(built.size());
    for (const auto& node : result.graph.nodes) {
      if (!lower::is_generated(node)) continue;
      const auto place = lower::place_of_kernel(node);
      const auto& [nodes, kernel] = lowered.kernels[place];
      auto& made = result.kernels[place] = callable(kernel, *built[place]);
      made.nodes = std::make_shared<const runtime::Program>(alone(nodes, node), tables_);
      prove(result.graph, node, kernel, made, sources[place]);
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

  void prove(const Graph& lowered, const Node& node, const lower::GroupKernel& kernel,
             const runtime::GeneratedKernel& made, const kernels::Source& source) {
    const auto run = run_of(lowered, kernel);
    const auto key = proof_key(run, source, compiler_);
    if (verdicts_.is_proven(key)) return;
    auto proof = proof_of(lowered, node, made);
    if (!proof.difference.empty()) {
      refuse(kernel.key, std::move(proof.difference));
    } else if (!proof.other_strides.empty()) {
      refuse(run, std::move(proof.other_strides), /*warns=*/false);
    } else {
      verdicts_.note_proof(key);
    }
  }

  const Graph& graph_;
  const ops::AttrTables& tables_;
  const lower::EagerCpu& cpu_;
  const Compiler& compiler_;
  Verdicts& verdicts_ = Verdicts::of_process();
  bool refused_ = false;
};

}  // namespace

void set_kernel_fault(std::function<void(lower::Kernel&)> fault) {
  kernel_fault() = std::move(fault);
  Verdicts::of_process().forget();
}

LoweredGraph lower_graph(Graph graph, const ops::AttrTables& tables, Lowering lowering) {
  if (lowering == Lowering::off) return {std::move(graph)};
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
    if (auto lowered = Attempt(graph, tables, *cpu, *compiler).run()) return std::move(*lowered);
  }
}

}  // namespace antegrad::compiler
