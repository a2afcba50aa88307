#pragma once

/// \file
/// The report on one program, made from what the stages of its compilation returned.

#include <antegrad/options.h>
#include <antegrad/report.h>
#include <antegrad/saved_tensors.h>

#include "capture/capture.h"
#include "compile/plan_partition.h"

namespace antegrad::compiler {

/// What the stages returned. Refers to values of the caller's.
struct ReportSources {
  const Options& options;
  const capture::InferCounts& counts;
  double capture_milliseconds;
  std::string graph_hash;
  size_t joint_nodes;
  const PlannedPartition& planned;
  const Partition& partition;     ///< finished
  int32_t first_hook_node;        ///< ids from here on are nodes of hooks
  const detail::HookPair* hooks;  ///< that are inlined; null for none
};

/// Reads compile_ms last: what comes after is not in it.
ProgramReport program_report(const ReportSources& sources);

}  // namespace antegrad::compiler
