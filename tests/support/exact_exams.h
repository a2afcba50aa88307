#pragma once

/// \file
/// What is looked at after a call: one exam, one fresh world.

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

  /// Calls from a fixed generator state and notes the error, if any. Returns whether it went
  /// through.
  bool call(Record& record);
  void call_or_throw();
  /// Seeds as the next call does.
  void seed() const;
  /// Drops results and what the function kept.
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

  /// The tensor's version. Of a result with a counter of its own the writes since the call:
  /// libtorch's composite kernels write what they make, and may do so more often from version to
  /// version.
  int64_t version_of(const at::Tensor& tensor) const;

  const World& world() const { return world_; }
  const Case& subject() const { return case_; }
  const Leaves& results() const { return results_; }
  /// What a backward can start from: results that require grad, and tensors of the world whose
  /// history the calls changed.
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
      fresh_versions_;  // of results after the last call, 0 of those that count with others
  std::vector<torch_compat::NodePtr> histories_;  // of outside(), before the calls
  int64_t calls_ = 0;
};

/// A name and what is done with a run: it calls, looks, and notes what it sees.
struct Exam {
  std::string name;
  std::function<void(Run& run, Record& record)> examine;
  /// The same where nothing is written or freed before the backward that needs it; for eager alone,
  /// where `examine` throws for that reason.
  std::vector<std::function<void(Run& run, Record& record)>> undisturbed = {};
};

/// The state of everything: values, metadata, autograd state, aliases, generators.
void picture(const Run& run, Record& record);

/// Name of the exam that takes several steps.
inline const std::string kRepeated = "three steps";

/// What a run is put through, given what an eager one looks like after its call.
std::vector<Exam> exams_for(const Run& run);

}  // namespace antegrad::testing
