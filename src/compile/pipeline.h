#pragma once

/// \file
/// From a captured joint graph to something that can be called:
///
///   simplify -> plan and split -> hooks -> finish -> build -> report
///
/// Each stage takes values and returns a value. The passes that stages run are listed in
/// passes/pass_list.cpp.

#include <functional>
#include <memory>

#include "antegrad/options.h"
#include "antegrad/report.h"
#include "antegrad/saved_tensors.h"
#include "cache/plan_cache.h"
#include "capture/capture.h"
#include "compile/capture_call.h"
#include "explain/record.h"
#include "graph/pack.h"
#include "log/trace.h"
#include "passes/pass_manager.h"
#include "runtime/executable.h"

namespace antegrad::compiler {

struct CompiledProgram {
  std::shared_ptr<const runtime::Executable> executable = nullptr;
  ProgramReport report = {};
  std::shared_ptr<const runtime::KernelMisses> misses = nullptr;  ///< go on being counted
  std::function<Partition()> partition = {};     ///< makes it again, before hooks and last passes
  std::function<PartitionRecord()> record = {};  ///< makes that of the partition, for replaying
  std::shared_ptr<const LivePlan> plan = {};     ///< for bundles; null for none
};

/// The context of passes under these options: one log per compilation.
PassContext pass_context(const Options& options);

/// Consumes the captured graph; `raw` is a copy of it. `later` captures the callable again for
/// another backward form, and when a kernel fails. Throws InternalError if a pass breaks an
/// invariant (with Options::verify_graphs), and for `hooks`, which are inlined, the errors of
/// hooks::capture_hooks(). The program shares memory with `like`, if it is one of other sizes. Logs
/// and traces name it by `id`.
CompiledProgram compile_joint(capture::Captured captured, std::shared_ptr<const PackedGraph> raw,
                              const Options& options, LaterCaptures later,
                              const std::shared_ptr<const detail::HookPair>& hooks = nullptr,
                              const runtime::Executable* like = nullptr, const TraceId& id = {});

}  // namespace antegrad::compiler
