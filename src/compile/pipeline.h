#pragma once

/// \file
/// From a captured joint graph to something that can be called:
///
///   simplify -> plan and split -> hooks -> finish -> build -> report
///
/// Each stage takes values and returns a value. The passes that stages run are listed in
/// passes/pass_list.cpp.

#include <memory>

#include "antegrad/options.h"
#include "antegrad/report.h"
#include "antegrad/saved_tensors.h"
#include "capture/capture.h"
#include "compile/capture_call.h"
#include "explain/record.h"
#include "graph/pack.h"
#include "passes/pass_manager.h"
#include "runtime/executable.h"

namespace antegrad::compiler {

struct CompiledProgram {
  std::shared_ptr<const runtime::Executable> executable;
  ProgramReport report;
  PartitionRecord record;  ///< of the partition, for replaying
};

/// How passes run under these options: one log a compilation.
PassContext pass_context(const Options& options);

/// Consumes the captured graph; `raw` is a copy of it. `later` captures the callable again when a
/// backward pass arrives in a form that the first capture was not made for, and when a kernel
/// fails. Throws InternalError when a pass breaks an invariant (and Options::verify_graphs is on),
/// and for `hooks`, which are inlined, what hooks::capture_hooks() throws.
CompiledProgram compile_joint(capture::Captured captured, std::shared_ptr<const PackedGraph> raw,
                              const Options& options, LaterCaptures later,
                              const std::shared_ptr<const detail::HookPair>& hooks = nullptr);

}  // namespace antegrad::compiler
