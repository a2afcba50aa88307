#include "compile/lowering.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compile/compile_logs.h"
#include "compile/kernel_code.h"
#include "compile/kernel_proof.h"
#include "compile/kernel_run.h"
#include "compile/kernel_sources.h"
#include "compile/kernel_verdicts.h"
#include "compile/products.h"
#include "compile/sleef.h"
#include "graph/generated_node.h"
#include "graph/hash.h"
#include "graph/text.h"
#include "kernels/proofs.h"
#include "log/log.h"
#include "lower/level.h"
#include "passes/reinplace.h"
#include "runtime/cuda_code.h"
#include "runtime/program.h"

namespace antegrad::compiler {
namespace {

using kernels::Compiler;
using kernels::Libraries;
using kernels::Outcome;
using kernels::RunTimes;

// What eager runs on this machine, as ATen's switches are now; nothing if kernels of that kind are
// not generated.
std::optional<lower::EagerCpu> eager_cpu() {
  const auto capability = lower::capability_beside(at::get_cpu_capability());
  if (!capability) return std::nullopt;
  const bool onednn = at::globalContext().userEnabledMkldnn();
  return lower::EagerCpu{.capability = *capability,
                         .onednn = onednn ? lower::onednn_of_this_cpu() : lower::OneDnn::off,
                         .threads = at::get_num_threads(),
                         .sleef_in_line = sleef_has_our_bits(*capability),
                         .beside_gpus = runtime::has_cuda_code()};
}

std::function<void(lower::Kernel&)>& kernel_fault() {
  static auto* const fault = new std::function<void(lower::Kernel&)>();
  return *fault;
}

std::string text_of(const kernels::Failure& failure) {
  return fmt::format("{}: {}", kernels::to_string(failure.reason), failure.text);
}

void warn_of(const std::string& failure) {
  warn_once(Log::kernels, "libtorch's kernels run instead of generated ones: " + failure);
}

lower::Level level_of(Lowering lowering) {
  return lowering == Lowering::close ? lower::Level::close : lower::Level::exact;
}

lower::LoneNodes lone_nodes(const LoweringRules& rules) {
  return rules.keep_slow_kernels ? lower::LoneNodes::all : lower::LoneNodes::worthwhile;
}

// Times differ from one number of threads to the next.
bool keeps_slow_kernels(const LoweringRules& rules) {
  return rules.keep_slow_kernels || (rules.deterministic && rules.lowering == Lowering::close);
}

// Why there are no kernels of this kind for a CPU; "" if there are.
std::string why_none(const LoweringRules& rules, const lower::EagerCpu& cpu) {
  return rules.lowering == Lowering::exact ? lower::why_not_exact(cpu.capability) : "";
}

// Other products have other roundings. Nothing at the level exact.
std::optional<ProductRules> product_rules(const LoweringRules& rules, const lower::EagerCpu& cpu) {
  if (rules.lowering != Lowering::close) return std::nullopt;
  return ProductRules{.threads = cpu.threads,
                      .copies = rules.copied_products,
                      .on_cpu = cpu.onednn != lower::OneDnn::off && !rules.deterministic};
}

// The run, for the verdict that it is slow, with which who keeps slow kernels does not agree.
Hash128 slow(const KernelRun& run) {
  return hash_of_bytes(to_string(run.speeds.front()) + " slow");
}

// Comparing a kernel of more elements would take hours. libtorch's kernels find no memory for so
// many.
constexpr int64_t kMostElements = int64_t{1} << 36;

// What is known against kernels of a graph, which must live on.
lower::Objections known_objections(const Graph& graph, const LoweringRules& rules,
                                   int64_t threads) {
  return [&graph, rules, threads](const lower::GroupKernel& kernel,
                                  const std::vector<int32_t>& nodes) {
    if (const auto large = rules.too_large.find(ids_of(graph, nodes));
        large != rules.too_large.end()) {
      const auto apart = std::ranges::find_if(
          nodes, [&](int32_t position) { return graph.nodes[position].id == large->second; });
      return lower::Objection{.reason = "it would keep too much in memory", .apart = *apart};
    }
    if (lower::space_size(kernel.kernel, kernel.numbers.data()) > kMostElements) {
      return lower::Objection{"it has too many elements to be compared"};
    }
    const auto& verdicts = KernelVerdicts::of_process();
    const auto run = run_of(graph, kernel, threads);
    for (const auto& key : {run.claim, run.exact}) {
      if (auto reason = verdicts.against(key); !reason.empty()) {
        return lower::Objection{.reason = std::move(reason), .disproved = true};
      }
    }
    if (keeps_slow_kernels(rules)) return lower::Objection();
    return lower::Objection{verdicts.against(slow(run)), /*divides=*/true};
  };
}

// Whether libtorch's kernels are to run instead. Those that are as fast do not, lest chance decide;
// what saves memory may take a little longer, since times are of nodes whose memory is in caches.
bool is_slow(const RunTimes& times, bool saves_memory) {
  const int64_t allowed = times.library / (saves_memory ? 10 : 32);
  return times.kernel > times.library + allowed;
}

runtime::GeneratedKernel callable(const lower::GroupKernel& made, const KernelCode& code,
                                  int64_t threads) {
  const bool rows = made.kernel.space != lower::Space::elements;
  runtime::GeneratedKernel kernel{
      .name = made.kernel.name,
      .numbers = made.numbers,
      .buffers = made.buffers,
      .bounds = made.bounds,
      .threads = rows ? threads : 0,
      .elements = lower::parallel_size(made.kernel, made.numbers.data()),
      .split = made.split};
  kernel.library = code.library;
  kernel.function = code.function;
  if (code.gpu != nullptr) {
    kernel.gpu = {code.gpu, lower::cuda_launch(made.kernel, made.numbers.data())};
    kernel.threads = 0;  // the CPU's do not matter
  }
  return kernel;
}

// Where the time of lowering a graph goes, in milliseconds.
struct Phases {
  double group = 0, print = 0, build = 0, compare = 0, measure = 0;
  int attempts = 0, compiled = 0, compared = 0, measured = 0;
};

// Adds the time of its life to a phase.
class Timer {
 public:
  explicit Timer(double& milliseconds) : milliseconds_(milliseconds) {}
  ~Timer() {
    const std::chrono::duration<double, std::milli> spent = Clock::now() - start_;
    milliseconds_ += spent.count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& milliseconds_;
  const Clock::time_point start_ = Clock::now();
};

// One attempt to lower a graph. Kernels that cannot be made, or that do not prove themselves, are
// refused for the next one.
class Attempt {
 public:
  Attempt(const Graph& graph, const ops::AttrTables& tables, const lower::EagerCpu& cpu,
          const Compiler& compiler, const LoweringRules& rules, const std::vector<ValueId>& donated,
          InventedData& data, lower::MadeKernels& made, Libraries& libraries, Phases& phases)
      : graph_(graph),
        tables_(tables),
        cpu_(cpu),
        compiler_(compiler),
        rules_(rules),
        level_(level_of(rules.lowering)),
        donated_(donated),
        data_(data),
        made_(made),
        libraries_(libraries),
        phases_(phases) {}

  // Nothing if kernels were refused.
  std::optional<LoweredGraph> run() {
    auto lowered = [&] {
      const Timer timer(phases_.group);
      return lower::kernel_graph(graph_, cpu_, known_objections(graph_, rules_, cpu_.threads),
                                 level_, lone_nodes(rules_), &made_);
    }();
    LoweredGraph result{.graph = std::move(lowered.graph), .refused = std::move(lowered.refused)};
    const auto sources = [&] {
      const Timer timer(phases_.print);
      return sources_of(lowered.kernels, kernel_fault());
    }();
    const auto built = [&] {
      const Timer timer(phases_.build);
      return build_code(sources, compiler_);
    }();
    for (const auto& outcome : built) {
      if (!outcome) continue;
      libraries_.insert(outcome->held());
      if (outcome->from == kernels::CodeFrom::compiler) ++phases_.compiled;
    }
    for (size_t i = 0; i < lowered.kernels.size(); ++i) {
      const auto& outcome = built[sources.of_kernel[i]];
      if (!outcome) refuse(run(lowered.kernels[i].kernel).claim, text_of(outcome.failure()));
    }
    if (refused_) return std::nullopt;
    result.kernels.resize(lowered.kernels.size());
    const auto in_place = reinplace(result.graph, donated_);
    for (const auto& node : result.graph.nodes) {
      if (!is_generated(node)) continue;
      const auto place = place_of_kernel(node);
      const auto& [nodes, kernel] = lowered.kernels[place];
      const auto index = sources.of_kernel[place];
      const auto& source = sources.sources[index];
      auto& made = result.kernels[place] = callable(kernel, *built[index], cpu_.threads);
      made.nodes = std::make_shared<const runtime::Program>(alone(nodes, node), tables_);
      made.misses = rules_.misses;
      const auto elements = lower::space_size(kernel.kernel, kernel.numbers.data());
      const KernelTrial trial(result.graph, in_place, node, made, elements, data_);
      const auto times = times_of(trial, run(kernel), source);
      const bool too_slow = is_slow(times, saves_memory(trial, node, nodes));
      result.reports.push_back(report_of(result.graph, node, nodes, made, times));
      if (too_slow) log_slow(result.reports.back());
      prove(trial, too_slow, node, lowered.kernels[place], source);
    }
    if (refused_) return std::nullopt;
    return result;
  }

 private:
  KernelRun run(const lower::GroupKernel& kernel) const {
    return run_of(graph_, kernel, cpu_.threads);
  }

  // With in-place nodes, as they would be without kernels: they show in strides of dimensions of
  // one element.
  Graph alone(const std::vector<int32_t>& nodes, const Node& kernel) const {
    return reinplace(lower::group_alone(graph_, nodes, kernel));
  }

  void refuse(const Hash128& key, std::string reason, bool warns = true) {
    refused_ = true;
    if (warns) warn_of(reason);
    verdicts_.refuse(key, std::move(reason));
  }

  // Refuses the kernel if it is slow or wrong. It was measured first: that takes less time than a
  // comparison.
  void prove(const KernelTrial& trial, bool too_slow, const Node& node,
             const lower::KernelOfGroup& group, const kernels::Source& source) {
    const auto run = this->run(group.kernel);
    if (too_slow && !keeps_slow_kernels(rules_)) {
      return refuse(slow(run), "libtorch's kernels are faster here", /*warns=*/false);
    }
    const auto claim = with_code(run.reach, source, compiler_);
    if (verdicts_.proven(claim)) return;
    for (const auto& key : {run.claim, run.exact}) {
      if (verdicts_.against(key).empty()) continue;
      refused_ = true;  // as an equal kernel of this graph was
      return;
    }
    // A close kernel that is less accurate than libtorch's is no sign of a fault: the exact one is
    // tried next. Nor is one of two forms.
    const auto level = group.kernel.level;
    const bool is_fault = level == lower::Level::exact && !group.kernel.has_second_form;
    if (!is_fault && verdicts_.disproven(claim)) {
      return refuse(run.claim, "it differed from libtorch's in an earlier process",
                    /*warns=*/false);
    }
    const auto this_size = with_code(run.exact, source, compiler_);
    if (verdicts_.disproven(this_size)) {
      return refuse(run.exact, "libtorch's result had other strides in an earlier process",
                    /*warns=*/false);
    }
    auto proof = compare(trial, group, node);
    if (proof.failed) {
      // Memory may be there another time, or for another size.
      refuse(run.exact, std::move(proof.difference));
    } else if (!proof.difference.empty()) {
      refuse(run.claim, std::move(proof.difference), is_fault);
      if (!is_fault) verdicts_.note_disproof(claim);
    } else if (!proof.other_strides.empty()) {
      refuse(run.exact, std::move(proof.other_strides), /*warns=*/false);
      verdicts_.note_disproof(this_size);
    } else {
      verdicts_.note_proof(claim);
    }
  }

  // Whether the kernel needs less memory than its nodes: what one of them makes is not in memory,
  // or in that of an input.
  bool saves_memory(const KernelTrial& trial, const Node& node,
                    const std::vector<int32_t>& group) const {
    const auto vanishes = [&](ValueId id) {
      return graph_.is_tensor(id) && std::ranges::find(node.outputs, id) == node.outputs.end();
    };
    return trial.is_in_place() || std::ranges::any_of(group, [&](int32_t position) {
             const Node& member = graph_.nodes[position];
             return !member.op.traits().view && std::ranges::any_of(member.outputs, vanishes);
           });
  }

  KernelProof compare(const KernelTrial& trial, const lower::KernelOfGroup& group,
                      const Node& node) {
    const Timer timer(phases_.compare);
    ++phases_.compared;
    if (group.kernel.level == lower::Level::exact) return trial.compare(nullptr);
    const runtime::Program in_float64(
        lower::in_float64(lower::group_alone(graph_, group.nodes, node)), tables_);
    return trial.compare(&in_float64);
  }

  // Known for about this many elements, or measured.
  RunTimes times_of(const KernelTrial& trial, const KernelRun& run, const kernels::Source& source) {
    constexpr double kFactors[] = {1, 2, 0.5};  // from what was measured to what is asked
    const auto key = [&](const Hash128& speed) {
      return with_code(trial.is_in_place() ? hash_of_bytes(to_string(speed) + " in place") : speed,
                       source, compiler_);
    };
    for (size_t i = 0; i < run.speeds.size(); ++i) {
      const auto known = verdicts_.times(key(run.speeds[i]));
      if (!known) continue;
      const auto scaled = [&](int64_t time) {
        return static_cast<int64_t>(static_cast<double>(time) * kFactors[i]);
      };
      return {scaled(known->kernel), scaled(known->library)};
    }
    const Timer timer(phases_.measure);
    ++phases_.measured;
    auto times = verdicts_.invented();
    if (!times) times = trial.measure();
    if (!times) return {};
    verdicts_.note_times(key(run.speeds.front()), *times);
    return *times;
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
  const std::vector<ValueId>& donated_;
  InventedData& data_;
  lower::MadeKernels& made_;
  Libraries& libraries_;
  Phases& phases_;
  KernelVerdicts& verdicts_ = KernelVerdicts::of_process();
  bool refused_ = false;
};

void log_phases(const Graph& graph, const Phases& phases, size_t kernels) {
  log(
      Log::kernels,
      [&] {
        return fmt::format(
            "{}: {} kernels in {} attempts; grouped in {:.1f} ms, printed in {:.1f}, "
            "{} compiled in {:.1f}, {} compared in {:.1f}, {} measured in {:.1f}",
            graph.name, kernels, phases.attempts, phases.group, phases.print, phases.compiled,
            phases.build, phases.compared, phases.compare, phases.measured, phases.measure);
      },
      LogLevel::debug);
}

}  // namespace

Outcome<Compiler> compiler_for_kernels() {
  static const auto found = kernels::find_compiler("", std::chrono::seconds(10));
  if (found) return found;
  const auto bundled = kernels::compiler_of_compiled();
  return bundled ? Outcome<Compiler>(*bundled) : found;
}

void set_kernel_fault(std::function<void(lower::Kernel&)> fault) {
  kernel_fault() = std::move(fault);
  KernelVerdicts::of_process().forget();
}

void set_kernel_times(std::optional<RunTimes> times) { KernelVerdicts::of_process().invent(times); }

lower::KernelGraph lowered_by_what_is_known(Graph graph, const LoweringRules& rules) {
  if (rules.lowering == Lowering::off || !compiler_for_kernels()) return {std::move(graph)};
  const auto cpu = eager_cpu();
  if (!cpu || !why_none(rules, *cpu).empty()) return {std::move(graph)};
  if (const auto products = product_rules(rules, *cpu)) {
    graph = with_known_products(std::move(graph), *products);
  }
  const auto objections = known_objections(graph, rules, cpu->threads);
  return lower::kernel_graph(graph, *cpu, objections, level_of(rules.lowering), lone_nodes(rules));
}

std::vector<int32_t> ids_of(const Graph& graph, const std::vector<int32_t>& nodes) {
  std::vector<int32_t> ids;
  for (const auto position : nodes) ids.push_back(graph.nodes[position].id);
  return ids;
}

LoweredGraph lower_graph(Graph graph, const ops::AttrTables& tables, const LoweringRules& rules,
                         const std::vector<ValueId>& donated) {
  if (rules.lowering == Lowering::off) return {std::move(graph)};
  const auto cpu = eager_cpu();
  if (!cpu) return {std::move(graph)};
  if (auto reason = why_none(rules, *cpu); !reason.empty()) {
    return {.graph = std::move(graph), .failure = std::move(reason)};
  }
  const auto compiler = compiler_for_kernels();
  if (!compiler) {
    auto failure = text_of(compiler.failure());
    warn_of(failure);
    return {.graph = std::move(graph), .failure = std::move(failure)};
  }
  InventedData data;
  OtherProducts products{std::move(graph)};
  if (const auto choices = product_rules(rules, *cpu)) {
    products = with_other_products(std::move(products.graph), *choices, data);
  }
  lower::MadeKernels made;
  Libraries libraries;
  Phases phases;
  std::optional<LoweredGraph> lowered;
  // Each attempt that fails refuses a kernel, so this ends.
  while (!lowered) {
    ++phases.attempts;
    lowered = Attempt(products.graph, tables, *cpu, *compiler, rules, donated, data, made,
                      libraries, phases)
                  .run();
  }
  lowered->products = std::move(products.reports);
  lowered->libraries = std::move(libraries);
  log_phases(products.graph, phases, lowered->kernels.size());
  return std::move(*lowered);
}

}  // namespace antegrad::compiler
