#pragma once

/// \file
/// One program of a compiled callable, with everything that calls, audits and checks need.

#include <functional>
#include <memory>

#include "antegrad/report.h"
#include "cache/plan_cache.h"
#include "compile/derivatives.h"
#include "explain/record.h"
#include "guards/one_offs.h"
#include "guards/origin.h"
#include "guards/program_cache.h"
#include "runtime/executable.h"

namespace antegrad::compiler {

struct Entry : guards::Origin, guards::Cached {
  std::shared_ptr<const runtime::Executable> executable;
  ProgramReport report;  ///< as it was compiled
  std::shared_ptr<const runtime::KernelMisses> kernel_misses;
  std::function<Partition()> partition;            ///< of `raw`, before hooks and last passes
  std::function<PartitionRecord()> record;         ///< how `raw` was partitioned
  std::shared_ptr<const LivePlan> plan;            ///< for bundles; null for none
  std::shared_ptr<const Derivatives> derivatives;  ///< null without Options::higher_derivatives
  std::shared_ptr<guards::RunCount> runs = std::make_shared<guards::RunCount>();

  /// The memory that it keeps; an estimate.
  int64_t bytes() const {
    return executable->bytes() + static_cast<int64_t>(raw->bytes() + sizeof(Entry));
  }
  /// Whether a backward pass of it may still come.
  bool in_use() const { return executable.use_count() > 1; }
  /// The reports of the programs that create_graph asked for.
  std::vector<ProgramReport> derivative_reports() const {
    return derivatives ? derivatives->reports() : std::vector<ProgramReport>();
  }
  /// The report with what its calls counted so far.
  ProgramReport report_now() const {
    auto now = report;
    now.node_runs = kernel_misses->counted();
    now.gpu_graphs = executable->graph_reports();
    return now;
  }
};

}  // namespace antegrad::compiler
