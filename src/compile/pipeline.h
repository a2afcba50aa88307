#pragma once

/// \file
/// From a captured joint graph to something that can be called: the passes, in order.

#include <memory>

#include "antegrad/options.h"
#include "antegrad/report.h"
#include "capture/capture.h"
#include "runtime/executable.h"

namespace antegrad::compiler {

struct CompiledProgram {
  std::shared_ptr<const runtime::Executable> executable;
  ProgramReport report;
};

/// Consumes the captured graph. Throws InternalError when a pass breaks an invariant (and
/// Options::verify_graphs is on).
CompiledProgram compile_joint(capture::Captured captured, const Options& options);

}  // namespace antegrad::compiler
