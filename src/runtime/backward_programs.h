#pragma once

/// \file
/// The backward programs of one executable, one per backward form.

#include <functional>
#include <memory>

#include "graph/call_plan.h"
#include "runtime/backward_program.h"
#include "runtime/made_on_demand.h"

namespace antegrad::runtime {

/// Makes the graph for a key on demand. Its exceptions are those of backward().
using BackwardSource = std::function<BackwardGraph(const BackwardKey&)>;

/// The key of the usual backward pass: from all tangents, with natural strides, to all gradients.
BackwardKey usual_key(const CallPlan& plan);

/// Makes programs on demand and keeps them. Thread-safe.
class BackwardPrograms {
 public:
  /// `plan` must outlive this object. `usual` is the program for usual_key(), null if it could not
  /// be captured; `source` makes the graphs of all others. For `graphs` see Program.
  BackwardPrograms(const CallPlan& plan, std::shared_ptr<const BackwardProgram> usual,
                   BackwardSource source, AliasCheck aliases,
                   std::shared_ptr<GraphCounts> graphs = nullptr);

  /// The program for a key, made now if it does not exist. Throws the exceptions of the source.
  std::shared_ptr<const BackwardProgram> get(const BackwardKey& key) const;

  /// The program for usual_key(); null if there is none.
  std::shared_ptr<const BackwardProgram> usual() const { return programs_.find(usual_key(plan_)); }
  /// The memory that the programs keep, see Program::bytes().
  int64_t bytes() const;
  /// The number of programs, and whether there is one for a key.
  size_t count() const { return programs_.count(); }
  bool has(const BackwardKey& key) const { return programs_.find(key) != nullptr; }

 private:
  const CallPlan& plan_;
  BackwardSource source_;
  AliasCheck aliases_;
  std::shared_ptr<GraphCounts> graphs_;
  mutable MadeOnDemand<BackwardKey, BackwardProgram> programs_;
};

}  // namespace antegrad::runtime
