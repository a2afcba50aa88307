#pragma once

/// \file
/// The backward programs of one executable: one for each way in which a backward pass may arrive.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "graph/call_plan.h"
#include "runtime/backward_program.h"

namespace antegrad::runtime {

/// Makes the graph for a key on first need. Throws what backward() is to throw.
using BackwardSource = std::function<BackwardGraph(const BackwardKey&)>;

/// The key of a backward pass from all tangents, as they usually are, to all gradients.
BackwardKey usual_key(const CallPlan& plan);

/// Programs are made on first need and kept. Thread-safe.
class BackwardPrograms {
 public:
  /// `plan` must outlive this. `usual`: the graph for usual_key(), where it could be captured;
  /// `source` makes the others. Saved inputs of all graphs must be saved by the plan.
  BackwardPrograms(const CallPlan& plan, const std::optional<BackwardGraph>& usual,
                   BackwardSource source, AliasCheck aliases);

  /// The program for a key; made now if there is none yet. Throws what the source throws.
  std::shared_ptr<const BackwardProgram> get(const BackwardKey& key) const;

  /// How many programs there are, and whether there is one for that key.
  size_t count() const;
  bool has(const BackwardKey& key) const;

 private:
  std::shared_ptr<const BackwardProgram> find(const BackwardKey& key) const;
  std::shared_ptr<const BackwardProgram> prepare(const BackwardGraph& backward) const;

  const CallPlan& plan_;
  BackwardSource source_;
  AliasCheck aliases_;
  mutable std::mutex mutex_;  // guards what is below
  mutable std::vector<std::pair<BackwardKey, std::shared_ptr<const BackwardProgram>>> programs_;
};

}  // namespace antegrad::runtime
