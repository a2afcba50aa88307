#pragma once

/// \file
/// Runs backward passes: as programs, or node by node.

#include <antegrad/options.h>
#include <antegrad/report.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backward/numbers.h"
#include "backward/pass_notes.h"
#include "backward/plan.h"
#include "backward/segment_program.h"
#include "guards/one_offs.h"

namespace antegrad::backward {

struct PassCounts {
  int64_t nodes_compiled = 0;
  int64_t captures = 0;
  std::map<std::string, int64_t> eager_reasons;  ///< by reason, nodes that ran themselves
  std::vector<std::string> recompiles;           ///< why a segment got another program
};

/// How often passes were found. Serialised by the owner's lock.
struct PassUses {
  std::shared_ptr<guards::RunCount> count = std::make_shared<guards::RunCount>();
  int64_t last = 0;

  void note(int64_t time) {
    ++count->started;
    last = time;
  }
};

/// Passes with one key, but for numbers that are inputs: their plan, and the programs of its
/// segments. Thread-safe.
class KnownPass {
 public:
  /// The nodes that `before`, if there is one, could not capture run themselves. `numbers`: those
  /// that are inputs, in the order of the key.
  KnownPass(const torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited,
            const Options& options, const KnownPass* before = nullptr,
            std::vector<HeldNumber> numbers = {});

  /// Whether it runs passes with this key.
  bool fits(const std::string& key) const {
    return same_but_for(plan_.numbered.key, key, numbers_);
  }
  const std::vector<HeldNumber>& numbers() const { return numbers_; }

  /// Runs a pass. Throws what its nodes, hooks and kernels throw; what ran before has then had its
  /// effects, as in the engine.
  PassCounts run(torch_compat::BackwardPass& pass, torch_compat::VisitedNodes& visited);

  const Plan& plan() const { return plan_; }
  const PassNotes& notes() const { return notes_; }
  /// Whether another plan would be better: a node of a segment could not be captured.
  bool has_refused() const;
  std::vector<ProgramReport> reports() const;

  PassUses uses;

 private:
  struct Made {
    std::shared_ptr<const SegmentProgram> program;
    std::shared_ptr<guards::RunCount> runs = std::make_shared<guards::RunCount>();
  };
  using Programs = std::vector<Made>;  // the newest last
  std::set<int32_t> refused() const;
  std::shared_ptr<const SegmentProgram> program_for(const torch_compat::BackwardPass& pass,
                                                    int32_t segment, const SegmentInputs& inputs,
                                                    PassCounts& counts);

  const Options options_;
  const std::set<int32_t> planned_as_refused_;
  const Plan plan_;
  const PassNotes notes_;                                  // reads the numbers of the plan
  const std::vector<HeldNumber> numbers_;                  // that are inputs
  const std::vector<std::vector<HeldNumber>> numbers_of_;  // the same by segment
  mutable std::mutex mutex_;                               // guards what follows
  std::vector<Programs> programs_;                         // by segment
  std::vector<guards::OneOffs> one_offs_;                  // by segment, of numbers that decide
  std::map<int32_t, std::string> refused_;                 // by place, the reason
};

/// Runs all nodes of a pass one by one, as libtorch's engine does.
void run_nodes(torch_compat::BackwardPass& pass);

}  // namespace antegrad::backward
