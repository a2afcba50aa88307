#pragma once

/// \file
/// Backward graphs for the ways in which backward passes arrive at a region.
///
/// The forward has run when a backward pass arrives, and what it saved is what there is. A form
/// (which tangents are defined, their strides, autocast) that the first capture was not made for is
/// captured then, by running the callable on stand-ins again; its forward must be that of the first
/// capture. Which gradients are wanted and whether saved tensors may be written over is graph work.

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "graph/call_plan.h"
#include "graph/pack.h"
#include "hooks/captured_hooks.h"
#include "partition/partition.h"
#include "passes/pass_manager.h"
#include "runtime/backward_program.h"

namespace antegrad::compiler {

/// Captures the callable again for another backward.
using Recapture = std::function<capture::Captured(const ops::BackwardForm&)>;

/// Thread-safe.
class BackwardVariants {
 public:
  struct Joint {
    PackedGraph graph;  ///< simplified
    ops::AttrTables tables;
    std::exception_ptr error;  ///< why there is no backward
  };

  /// What later backwards have in common with the usual one.
  struct Usual {
    IdMap<ValueId, bool> saved;  ///< by the forward, before hooks pack it
    Schedule schedule;
    hooks::CapturedHooks hooks;  ///< what the forward packs, which each backward unpacks
    CallPlan plan;               ///< with hooks
  };

  /// `first` is the joint graph of the usual form; `raw` the same as captured.
  BackwardVariants(std::shared_ptr<const PackedGraph> raw, Joint first, Usual usual,
                   Recapture recapture, PassContext context);

  /// Throws the form's capture error, BackwardError when the callable cannot be captured again or
  /// the backward needs what the forward did not save.
  runtime::BackwardGraph make(const runtime::BackwardKey& key);

 private:
  const Joint& joint_for(const ops::BackwardForm& form, const PassContext& context);
  const Joint* find(const ops::BackwardForm& form);
  Joint capture(const ops::BackwardForm& form, const PassContext& context) const;
  /// With a log and a folder for dumps of its own.
  PassContext next_context();

  const std::shared_ptr<const PackedGraph> raw_;
  const Usual usual_;
  const Recapture recapture_;
  const PassContext context_;
  std::atomic<int> dumped_{0};
  std::mutex mutex_;  // guards what is below
  std::vector<std::pair<ops::BackwardForm, std::unique_ptr<const Joint>>> joints_;
};

}  // namespace antegrad::compiler
