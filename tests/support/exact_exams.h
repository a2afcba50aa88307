#pragma once

/// \file
/// Exams: inspections after a call, each on a new world.

#include <functional>
#include <string>
#include <vector>

#include "support/exact.h"
#include "support/exact_record.h"
#include "torch_compat/autograd_node.h"

namespace antegrad::testing {

/// A world with the callable that is called on it.
class Run {
 public:
  Run(const Case& c, World world, Step& step);

  /// Calls from a fixed generator state and records any error. Returns whether the call succeeded.
  bool call(Record& record);
  void call_or_throw();
  /// Seeds as the next call will.
  void seed() const;
  /// Drops the results and everything the function kept.
  void forget();

  struct Subject {
    std::string name;
    at::Tensor tensor;
  };
  /// Defined tensors of the world, then those of the results, by name.
  std::vector<Subject> subjects() const;

  /// Whether a tensor of the world is differentiated both through the call and outside of it: a
  /// result is that tensor or a view of it, or the call gave it a history. Its gradients may then
  /// be added in another order (docs/accuracy.md).
  bool differentiates_outside() const;

  /// The version of a tensor. For a result with its own counter, only the writes since the call:
  /// composite kernels of libtorch write their results an unspecified number of times.
  int64_t version_of(const at::Tensor& tensor) const;

  const World& world() const { return world_; }
  const Case& subject() const { return case_; }
  const Leaves& results() const { return results_; }
  /// The tensors from which a backward can start: results that require grad, and tensors of the
  /// world whose history the calls changed.
  std::vector<Subject> roots() const;
  /// Tensors of the world that require grad, each once, without Case::inner.
  std::vector<Subject> wanted() const;

 private:
  std::vector<Subject> outside() const;
  void note_fresh_versions();

  const Case& case_;
  World world_;
  Step& step_;
  Leaves results_;
  std::vector<int64_t>
      fresh_versions_;  // of results after the last call; 0 for those that share another counter
  std::vector<torch_compat::NodePtr> histories_;  // of outside(), before the calls
  int64_t calls_ = 0;
};

/// A name and an inspection of a run, which may call it, and records its findings.
struct Exam {
  std::string name;
  std::function<void(Run& run, Record& record)> examine;
  /// The same without writing or freeing before the backward. Used for eager only, if `examine`
  /// throws for that reason.
  std::vector<std::function<void(Run& run, Record& record)>> undisturbed = {};
};

/// Records the whole state: values, metadata, autograd state, aliases, generators.
void picture(const Run& run, Record& record);

/// Name of the exam that takes several steps.
inline const std::string kRepeated = "three steps";

/// The exams for a run, chosen by the state of an eager run after its call.
std::vector<Exam> exams_for(const Run& run);

}  // namespace antegrad::testing
