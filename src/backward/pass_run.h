#pragma once

/// \file
/// Runs backward passes: as programs, or node by node.

#include <antegrad/options.h>
#include <antegrad/report.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backward/plan.h"
#include "backward/segment_program.h"

namespace antegrad::backward {

struct PassCounts {
  int64_t nodes_compiled = 0;
  int64_t captures = 0;
  std::map<std::string, int64_t> eager_reasons;  ///< by reason, nodes that ran themselves
};

/// Passes with one key: their plan, and the programs of its segments. Thread-safe.
class KnownPass {
 public:
  KnownPass(const torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited,
            const Options& options);

  /// Runs a pass. Throws what its nodes, hooks and kernels throw; what ran before has then had its
  /// effects, as in the engine.
  PassCounts run(torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited);

  const Plan& plan() const { return plan_; }
  std::vector<ProgramReport> reports() const;

 private:
  struct Programs {
    std::vector<std::shared_ptr<const SegmentProgram>> all;  // the newest last
    std::string refusal;  // why the segment is not captured; empty if it is
  };
  std::shared_ptr<const SegmentProgram> program_for(const torch_compat::BackwardPass& pass,
                                                    int32_t segment, const SegmentInputs& inputs,
                                                    const std::vector<int64_t>& sizes,
                                                    PassCounts& counts);

  const Options options_;
  const Plan plan_;
  mutable std::mutex mutex_;  // guards programs_
  std::vector<Programs> programs_;
};

/// Runs all nodes of a pass one by one, as libtorch's engine does.
void run_nodes(torch_compat::BackwardPass& pass);

}  // namespace antegrad::backward
