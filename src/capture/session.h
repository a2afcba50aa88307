#pragma once

/// \file
/// One capture: code runs on stand-ins, and no outside state changes.
///
/// A driver provides the code: a callable with its backward (capture.h), or any other code that
/// calls operators. The session does the part that is common to all drivers. It makes the tracer
/// current and sets the thread's dispatch state; finds the sources of real tensors that operators
/// received; runs the code again if memory turns out to be shared; and restores all state (tensors,
/// gradients, generators, thread-local state), whether the capture succeeds or throws.

#include <ATen/core/Tensor.h>
#include <antegrad/options.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "capture/data_questions.h"
#include "capture/infer.h"
#include "capture/placeholder.h"
#include "capture/resizes.h"
#include "capture/shared_memory.h"
#include "capture/untouched.h"
#include "graph/graph.h"
#include "ops/answer.h"
#include "ops/attrs.h"
#include "ops/number.h"

namespace antegrad::capture {

class Tracer;

/// The environment of the captured code.
struct World {
  std::string name;  ///< of the graph
  /// Frees objects that the code left to a garbage collector: young ones, or `all`. Null if there
  /// is none.
  void (*collect)(bool all) = nullptr;
  /// The source of a tensor that the code may hold: its name and kind.
  std::function<Source(const at::Tensor&)> source_of;
  /// A tensor of the same kind with the given storage.
  Holder holder_of;
  /// Answers questions about the data of this call; null if its data are gone.
  Evaluate evaluate;
  /// Tensors that must not change even if no operator receives them (module slots).
  std::vector<at::Tensor> watched;
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
  BytesAtCall bytes_at_call = {};
};

struct Captured {
  Graph joint;
  ops::AttrTables tables;
  /// Real tensors behind the leading primals of joint.inputs, in the same order. Constants are
  /// owned; the caller decides how to hold the others.
  std::vector<at::Tensor> primals;
  std::vector<ops::Question> questions;  ///< about data, in order, with the assumed answers
  /// By primal: the tensor through which it is found (Source::via); undefined for most.
  std::vector<at::Tensor> holders;
  /// By primal: the primal of which autograd takes it for a view in this capture; -1 for most.
  std::vector<int32_t> follows;
  /// By argument leaf: index in joint.inputs, -1 for an undefined leaf. Equal indices for the same
  /// tensor.
  std::vector<int32_t> leaf_inputs;
  /// By argument leaf: whether the callable also holds it, or a tensor that shares its memory.
  std::vector<bool> held_arguments;
  ops::NumberUse numbers;  ///< of the call, on which the graph depends
  std::vector<PlaceholderUse> placeholders;
  InferCounts counts;
  /// Why there is no backward although results require grad; thrown when a backward is requested.
  std::exception_ptr backward_error;
  double milliseconds = 0;
};

/// The code that a session captures. Called on the session's thread; run() may be called several
/// times.
class Driver {
 public:
  /// Runs the code and returns its results. Real tensors that operators receive are lifted
  /// automatically.
  virtual std::vector<at::Tensor> run(Tracer& tracer) = 0;
  /// Throws CaptureError for code that a program cannot reproduce. Sources of real tensors are not
  /// known yet.
  virtual void check(Tracer& tracer, const std::vector<at::Tensor>& results) = 0;
  /// Sets the inputs and outputs of the graph. Not called for a discarded run.
  virtual void finish(Tracer& tracer, std::vector<at::Tensor> results, Captured& captured) = 0;

 protected:
  ~Driver() = default;
};

class Session {
 public:
  /// Both must outlive the session.
  Session(const World& world, Driver& driver);

  /// Throws CaptureError and its subclasses, and the driver's exceptions.
  Captured capture();
  /// After capture(): the source line that recorded a node of its graph; "" if unknown. Runs the
  /// code again.
  std::string line_of(int32_t node);

 private:
  SharedMemories run(Tracer& tracer, Captured& captured);
  SharedMemories attempt(Captured& captured, int32_t locate = -1);
  [[noreturn]] void refuse_escape(const Captured& captured);
  void require_seeds_of_others(const Captured& captured);

  const World& world_;
  Driver& driver_;
  const std::vector<Snapshot> watched_;
  SharedMemories shared_;       // known so far
  bool refuses_reads_ = false;  // all shared memory is known: Tracer::refuses_reads
  // From the last attempt: values of stand-ins still alive, newest first; the line.
  std::vector<ValueId> alive_;
  std::string line_;
};

/// Whether a capture runs on this thread.
bool capturing();
/// How many nodes that capture has recorded so far: the next one has this id. There must be one.
int32_t recorded_nodes();

}  // namespace antegrad::capture
