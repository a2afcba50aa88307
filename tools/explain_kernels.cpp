#include "explain_kernels.h"

#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.h"
#include "explain/kernel_list.h"
#include "explain/record.h"
#include "explain/replay.h"
#include "graph/analysis.h"
#include "graph/verify.h"
#include "kernels/compiler.h"

namespace antegrad::cli {
namespace {

using lower::Capability;

/// What ATen runs here: its environment variable, or the highest that the CPU has.
Capability capability_here() {
  const char* chosen = std::getenv("ATEN_CPU_CAPABILITY");
  if (const auto known = lower::capability_from_name(chosen == nullptr ? "" : chosen)) {
    return *known;
  }
  for (const Capability capability : {Capability::avx512, Capability::avx2, Capability::neon}) {
    if (kernels::missing_features(capability).empty()) return capability;
  }
  return Capability::baseline;
}

int64_t threads_here() {
  const char* chosen = std::getenv("OMP_NUM_THREADS");
  const int64_t threads = chosen == nullptr ? 0 : std::atoll(chosen);
  return threads > 0 ? threads : std::max<int64_t>(1, std::thread::hardware_concurrency());
}

lower::EagerCpu eager_cpu(const KernelOptions& options) {
  lower::EagerCpu cpu{capability_here(), lower::onednn_of_this_cpu(), options.threads};
  if (!options.capability.empty())
    cpu.capability = *lower::capability_from_name(options.capability);
  if (cpu.threads == 0) cpu.threads = threads_here();
  return cpu;
}

/// The graphs of a file that would be lowered: both halves of a joint graph, or the graph itself.
std::vector<Graph> halves_of(const std::string& file, PlanOptions plan) {
  plan.file = file;
  if (!plan.budget.empty()) {
    const Planned planned(plan, Packing::as_recorded);
    Partition partition = planned.planner().partition(planned.point());
    return {std::move(partition.forward), std::move(partition.backward)};
  }
  GraphFile found = read_graph_file(file);
  verify(found.graph);
  if (!is_joint(found.graph)) return {std::move(found.graph)};
  const PartitionChoice choice = recorded_choice(found, plan.symbols, plan.as_is);
  Partition partition = partition_by(std::move(found.graph), choice);
  return {std::move(partition.forward), std::move(partition.backward)};
}

}  // namespace

void add_kernel_options(CLI::App& command, KernelOptions& options) {
  CLI::Option* kernels = command.add_flag(
      "--kernels", options.wanted,
      "Instead, the kernels that the option lowering would generate, and what stays library calls. "
      "A joint graph is divided as its record says, by --budget, or as written");
  command
      .add_option(
          "--capability", options.capability,
          "Generate for this ATEN_CPU_CAPABILITY: default, avx2, avx512, neon; if omitted, that "
          "of this machine")
      ->check(CLI::IsMember({"default", "avx2", "avx512", "neon"}))
      ->type_name("NAME")
      ->needs(kernels);
  command
      .add_option("--threads", options.threads,
                  "Threads of libtorch; if omitted, OMP_NUM_THREADS or the number of CPUs")
      ->check(CLI::PositiveNumber)
      ->type_name("NUMBER")
      ->needs(kernels);
  CLI::Option* source =
      command
          .add_option("--source", options.source,
                      "Print the kernels: ir (docs/loop-ir.md) or c, as one C file")
          ->check(CLI::IsMember({"ir", "c"}))
          ->type_name("FORM")
          ->needs(kernels);
  command.add_option("--kernel", options.name, "Only those whose names start so")
      ->type_name("NAME")
      ->needs(source);
}

void explain_kernels(const std::vector<std::string>& files, const PlanOptions& plan,
                     const KernelOptions& options, size_t most, bool json) {
  if (json && !options.source.empty()) throw UsageError("expected --json or --source, not both");
  const lower::EagerCpu cpu = eager_cpu(options);
  std::vector<KernelList> lists;
  for (const std::string& file : files) {
    for (const Graph& graph : halves_of(file, plan)) lists.push_back(kernel_list(graph, cpu));
  }
  if (json) {
    nlohmann::json all = {{"path", path_text(cpu)}, {"graphs", nlohmann::json::array()}};
    for (const KernelList& list : lists) all["graphs"].push_back(to_json(list));
    std::cout << all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else if (!options.source.empty()) {
    const KernelSource form = options.source == "c" ? KernelSource::c : KernelSource::ir;
    std::cout << kernel_source(lists, form, options.name, cpu.capability);
  } else {
    std::cout << path_text(cpu) << "\n";
    for (const KernelList& list : lists) std::cout << "\n" << to_text(list, most);
  }
}

}  // namespace antegrad::cli
