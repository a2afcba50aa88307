#pragma once

/// \file
/// The backward programs of one executable, one per backward form.

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "graph/call_plan.h"
#include "runtime/backward_program.h"

namespace antegrad::runtime {

/// Makes the graph for a key on demand. Its exceptions are those of backward().
using BackwardSource = std::function<BackwardGraph(const BackwardKey&)>;

/// The key of the usual backward pass: from all tangents, with natural strides, to all gradients.
BackwardKey usual_key(const CallPlan& plan);

/// Makes programs on demand and keeps them. Thread-safe.
class BackwardPrograms {
 public:
  /// `plan` must outlive this object. `usual` is the program for usual_key(), null if it could not
  /// be captured; `source` makes the graphs of all others.
  BackwardPrograms(const CallPlan& plan, std::shared_ptr<const BackwardProgram> usual,
                   BackwardSource source, AliasCheck aliases);

  /// The program for a key, made now if it does not exist. Throws the exceptions of the source.
  std::shared_ptr<const BackwardProgram> get(const BackwardKey& key) const;

  /// The program for usual_key(); null if there is none.
  std::shared_ptr<const BackwardProgram> usual() const { return find(usual_key(plan_)); }
  /// The memory that the programs keep, see Program::bytes().
  int64_t bytes() const;
  /// The number of programs, and whether there is one for a key.
  size_t count() const;
  bool has(const BackwardKey& key) const;

 private:
  std::shared_ptr<const BackwardProgram> find(const BackwardKey& key) const;

  const CallPlan& plan_;
  BackwardSource source_;
  AliasCheck aliases_;
  mutable std::mutex mutex_;  // guards the members below
  mutable std::vector<std::pair<BackwardKey, std::shared_ptr<const BackwardProgram>>> programs_;
};

}  // namespace antegrad::runtime
