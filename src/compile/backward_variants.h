#pragma once

/// \file
/// Backward graphs for the forms in which backward passes arrive at a region.
///
/// When a backward pass arrives, the forward has run and its saved values are fixed. A form (which
/// tangents are defined, their strides, autocast) other than that of the first capture is captured
/// at that moment by running the callable on stand-ins again; its forward must equal that of the
/// first capture. Which gradients are wanted, and whether saved tensors may be overwritten, only
/// needs graph transformations.

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "compile/lowering.h"
#include "graph/call_plan.h"
#include "graph/pack.h"
#include "hooks/captured_hooks.h"
#include "partition/partition.h"
#include "passes/pass_manager.h"
#include "runtime/backward_program.h"
#include "runtime/made_on_demand.h"

namespace antegrad::compiler {

/// Captures the callable again for another backward.
using Recapture = std::function<capture::Captured(const ops::BackwardForm&)>;

/// Thread-safe.
class BackwardVariants {
 public:
  struct Joint {
    std::shared_ptr<const PackedGraph> graph = nullptr;
    bool simplified = false;  ///< otherwise as captured
    ops::AttrTables tables = {};
    std::exception_ptr error = nullptr;  ///< why there is no backward
  };

  /// Parts of the usual backward that later backwards share.
  struct Usual {
    IdMap<ValueId, bool> saved;  ///< saved by the forward, before hooks pack it
    Schedule schedule;
    hooks::CapturedHooks hooks;  ///< values that the forward packs and each backward unpacks
    std::shared_ptr<const CallPlan> plan;  ///< after hooks were applied
    LoweringRules lowering = {};
    int64_t bucket_bytes = 0;   ///< join_gathers()
    int64_t gathers_ahead = 0;  ///< overlap_collectives()
  };

  /// The joint graph of the usual form, to be kept. The graph as captured serves, since it is kept
  /// anyway, and simplifying it again gives the same graph; except if a user-defined pass ran,
  /// which need not repeat itself.
  static Joint keep(std::shared_ptr<const PackedGraph> raw, const Graph& simplified,
                    const capture::Captured& captured, const PassContext& context);

  /// `first` is the joint graph of the usual form; `raw` is the same graph as captured.
  BackwardVariants(std::shared_ptr<const PackedGraph> raw, Joint first, Usual usual,
                   Recapture recapture, PassContext context);

  /// The usual forward and backward, before hooks.
  Partition usual() const;

  /// Throws the capture error of the form, and BackwardError if the callable cannot be captured
  /// again or the backward needs values that the forward did not save.
  runtime::BackwardGraph make(const runtime::BackwardKey& key);
  /// The same, without kernels and writes in place.
  runtime::BackwardGraph make_plain(const runtime::BackwardKey& key);

 private:
  runtime::BackwardGraph split(const runtime::BackwardKey& key, const PassContext& context);
  std::shared_ptr<const Joint> joint_for(const ops::BackwardForm& form, const PassContext& context);
  Joint capture(const ops::BackwardForm& form, const PassContext& context) const;
  Graph simplified(const Joint& joint) const;
  /// A context with its own log and dump folder.
  PassContext next_context();

  const std::shared_ptr<const PackedGraph> raw_;
  const Usual usual_;
  const Recapture recapture_;
  const PassContext context_;
  std::atomic<int> dumped_{0};
  runtime::MadeOnDemand<ops::BackwardForm, Joint> joints_;  // the usual one by ops::BackwardForm()
};

}  // namespace antegrad::compiler
