#pragma once

/// \file
/// What the minimum cut decides about the steps of a graph, and by which rule: the part that partitioners by rules
/// and by a ratio share.

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
  /// All that may be lifted; and what can run again is not saved then, whatever it weighs.
  bool all = false;
};

class SavedBytes;

class CutSolution {
 public:
  /// `steps` must outlive it; the graph of `steps` may go away after saved() was asked.
  CutSolution(const StepGraph& steps, const MinCutOptions& options, const Lifting& lifting = {});

  /// By step: the ban in force, "" where there is none.
  const Bans& bans() const { return bans_; }
  /// By step: whether what it makes is saved. Views are among them where MinCutOptions::recompute_views is off.
  const std::vector<bool>& saved_steps() const { return saved_steps_; }
  /// By value, as split_at() takes it: what to save, of views their bases, with the states that random draws begin with, which are saved where the draw
  /// runs again.
  std::vector<bool> saved() const;
  /// Fills Partition::decisions of what split_at(graph, saved()) made.
  void tell_decisions(Partition& partition) const;

 private:
  void lift(const MinCutOptions& options, const Lifting& lifting);
  void cut();
  void weigh_plainly(const SavedBytes& bytes);
  /// The rule that decided to save a value, or to compute it again.
  Decision decision(ValueId id, bool saved) const;

  const StepGraph& steps_;
  Bans bans_;
  std::vector<double> weights_;  // by step
  std::vector<std::string_view> weight_rules_;
  std::vector<bool> saved_steps_;
  std::vector<bool> saved_;   // by value
  std::vector<bool> lifted_;  // by step; empty: none
  std::string_view undecided_ = "minimum_cut";
};

}  // namespace antegrad
