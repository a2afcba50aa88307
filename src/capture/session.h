#pragma once

/// \file
/// One capture: code runs on stand-ins, and nothing outside changes.
///
/// A driver says which code: a callable with its backward (capture.h), or any other that calls
/// operators. The session does what is the same for all. It makes the tracer current and sets the
/// thread's dispatch state; finds where the real tensors come from that operators met; runs the
/// code again where memory turns out to be shared; and puts everything back (tensors, gradients,
/// generators, thread-local state), whether the capture succeeds or throws.

#include <ATen/core/Tensor.h>
#include <antegrad/options.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "capture/data_questions.h"
#include "capture/infer.h"
#include "capture/shared_memory.h"
#include "capture/untouched.h"
#include "graph/graph.h"
#include "ops/answer.h"
#include "ops/attrs.h"

namespace antegrad::capture {

class Tracer;

/// What a capture may meet outside of the code that it runs.
struct World {
  std::string name;  ///< of the graph
  /// Frees what the code left to a garbage collector, what is young or `all`; null where there is
  /// none.
  void (*collect)(bool all) = nullptr;
  /// Where tensors that the code holds may come from: name and kind by tensor.
  std::function<Source(const at::Tensor&)> source_of;
  /// A tensor of the same kind whose storage is the given one.
  Holder holder_of;
  /// Answers questions about the data of this call; null where its data are gone.
  Evaluate evaluate;
  /// Tensors that must be untouched afterwards even if no operator meets them (module slots).
  std::vector<at::Tensor> watched;
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
};

struct Captured {
  Graph joint;
  ops::AttrTables tables;
  /// Real tensors behind the leading primals of joint.inputs, same order. Constants are owned; the
  /// caller decides how to hold the others.
  std::vector<at::Tensor> primals;
  std::vector<ops::Question> questions;  ///< about data, in order, and what was assumed
  /// By primal: the tensor through which it is found (Source::via), undefined for most.
  std::vector<at::Tensor> holders;
  /// By primal: the primal that it is a view of by autograd in this capture, -1 for most.
  std::vector<int32_t> follows;
  /// By argument leaf: index in joint.inputs, -1 for an undefined leaf. Equal for the same tensor.
  std::vector<int32_t> leaf_inputs;
  /// By argument leaf: whether the callable also holds it, or something that shares its memory.
  std::vector<bool> held_arguments;
  InferCounts counts;
  /// Why there is no backward although results require grad; raised when backward is asked for.
  std::exception_ptr backward_error;
  double milliseconds = 0;
};

/// The code that a session captures. Called on the session's thread; run() once or several times.
class Driver {
 public:
  /// Runs the code and returns its results. Real tensors that operators receive are lifted by
  /// themselves.
  virtual std::vector<at::Tensor> run(Tracer& tracer) = 0;
  /// Throws CaptureError for what a program could not do. Where real tensors come from is not known
  /// yet.
  virtual void check(Tracer& tracer, const std::vector<at::Tensor>& results) = 0;
  /// Gives the graph its inputs and outputs. Not called for a run that is discarded.
  virtual void finish(Tracer& tracer, std::vector<at::Tensor> results, Captured& captured) = 0;

 protected:
  ~Driver() = default;
};

class Session {
 public:
  /// Both must outlive the session.
  Session(const World& world, Driver& driver);

  /// Throws CaptureError and its kinds, and whatever the driver throws.
  Captured capture();
  /// After capture(): the source line that recorded a node of its graph, "" when it cannot be told.
  /// Runs the code again.
  std::string line_of(int32_t node);

 private:
  SharedMemories run(Tracer& tracer, Captured& captured);
  SharedMemories attempt(Captured& captured, int32_t locate = -1);
  [[noreturn]] void refuse_escape(const Captured& captured);
  void require_seeds_of_others(const Captured& captured);

  const World& world_;
  Driver& driver_;
  const std::vector<Snapshot> watched_;
  SharedMemories shared_;  // known so far
  // Of the last attempt: values of stand-ins that are still held, the newest first; the line.
  std::vector<ValueId> alive_;
  std::string line_;
};

/// Whether a capture runs on this thread.
bool capturing();

}  // namespace antegrad::capture
