#pragma once

/// \file
/// The report on one program, made from what the stages of its compilation returned.

#include <antegrad/options.h>
#include <antegrad/report.h>
#include <antegrad/saved_tensors.h>

#include <string>
#include <vector>

#include "capture/capture.h"
#include "compile/cached_plan.h"
#include "compile/lowering.h"
#include "compile/plan_partition.h"

namespace antegrad::compiler {

/// A node of the forward that the backward runs, by itself or in a kernel.
struct RecomputedNode {
  int32_t id;  ///< Node::id
  Op op;
};

/// The results of the stages. Refers to the caller's values.
struct ReportSources {
  const Options& options;
  const capture::InferCounts& counts;
  double capture_milliseconds;
  std::string graph_hash;
  size_t joint_nodes;
  const PlannedPartition& planned;
  const Partition& partition;  ///< finished
  std::vector<RecomputedNode> recomputed;
  const detail::HookPair* hooks;  ///< inlined hooks; null for none
  const LoweredGraph& forward;    ///< kernels, without the graph
  const LoweredGraph& backward;
  const CacheUse& cache;  ///< what became of the plan
};

/// Reads compile_ms last, so that it covers everything before.
ProgramReport program_report(const ReportSources& sources);

}  // namespace antegrad::compiler
