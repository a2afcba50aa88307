#pragma once

/// \file
/// From a captured joint graph to something that can be called: simplify (joint_passes.cpp), partition,
/// prepare.

#include <memory>

#include "antegrad/options.h"
#include "antegrad/report.h"
#include "capture/capture.h"
#include "compile/backward_variants.h"
#include "runtime/executable.h"

namespace antegrad::compiler {

struct CompiledProgram {
  std::shared_ptr<const runtime::Executable> executable;
  ProgramReport report;
};

/// Consumes the captured graph; `raw` is a copy of it. `recapture` captures the callable again when a backward pass arrives in a
/// form that the first capture was not made for. Throws InternalError when a pass breaks an invariant (and
/// Options::verify_graphs is on).
CompiledProgram compile_joint(capture::Captured captured, std::shared_ptr<const Graph> raw,
                              const Options& options, Recapture recapture);

}  // namespace antegrad::compiler
