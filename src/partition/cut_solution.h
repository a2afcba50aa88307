#pragma once

/// \file
/// The decisions of a minimum cut about the steps of a graph, and the rule for each. Shared by the
/// partitioners by rules and by ratio.

#include <string_view>
#include <vector>

#include <antegrad/partition.h>

#include "partition/partition.h"
#include "partition/rules.h"
#include "partition/steps.h"

namespace antegrad {

/// Bans that a memory budget lifts.
struct Lifting {
  std::vector<bool> steps;  ///< by step; empty: none
  /// All bans that may be lifted; and what can run again is then not saved, whatever its weight.
  bool all = false;
};

class SavedBytes;

class CutSolution {
 public:
  /// `steps` must outlive it. The graph of `steps` may be destroyed after a call of saved().
  CutSolution(const StepGraph& steps, const MinCutOptions& options, const Lifting& lifting = {});

  /// By step: the ban in force; "" if there is none.
  const Bans& bans() const { return bans_; }
  /// By step: whether its result is saved. Views are included if MinCutOptions::recompute_views is
  /// off.
  const std::vector<bool>& saved_steps() const { return saved_steps_; }
  /// By value, as split_at() takes it: what to save. Instead of views it has their bases, and it
  /// includes the generator states of random draws that run again.
  IdMap<ValueId, bool> saved() const;
  /// Fills Partition::decisions of the result of split_at(graph, saved()).
  void tell_decisions(Partition& partition) const;

 private:
  void lift(const MinCutOptions& options, const Lifting& lifting);
  void cut();
  void weigh_plainly(const SavedBytes& bytes);
  /// The rule that decided to save a value, or to recompute it.
  Decision decision(ValueId id, bool saved) const;

  const StepGraph& steps_;
  Bans bans_;
  std::vector<double> weights_;  // by step
  std::vector<std::string_view> weight_rules_;
  std::vector<bool> saved_steps_;
  IdMap<ValueId, bool> saved_;
  std::vector<bool> lifted_;  // by step; empty: none
  std::string_view undecided_ = "minimum_cut";
};

}  // namespace antegrad
