#pragma once

/// \file
/// One running capture: the graph that grows, and the stand-ins' values.
///
/// A Tracer lives on the stack of capture(). The thread that runs it, and engine threads that
/// libtorch starts on its behalf, find it with current(). Recording locks: the engine may run
/// device threads beside each other.

#include <ATen/core/stack.h>
#include <antegrad/options.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/call_site.h"
#include "capture/data_access.h"
#include "capture/data_questions.h"
#include "capture/infer.h"
#include "capture/roots.h"
#include "capture/stand_in.h"
#include "graph/graph.h"
#include "ops/attrs.h"
#include "torch_compat/autograd_node.h"
#include "torch_compat/tracer_context.h"

namespace antegrad::capture {

class InPlace;

class Tracer final : public torch_compat::CarriedBase {
 public:
  /// `shared`: memory that an earlier run of the same capture found to be shared; outlives the
  /// tracer.
  explicit Tracer(const SharedMemories& shared);
  ~Tracer() override;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// The capture that runs on this thread, or on the thread that this one works for; null when
  /// none.
  static Tracer* current();

  /// Records one call and replaces the arguments on the stack by its outputs. Arguments are
  /// stand-ins (not wrapped), numbers that libtorch wrapped, or real tensors, which become
  /// constants. A twin leaves its newly made outputs, then one list with the new values of what it
  /// writes. Throws CaptureError for what cannot be captured.
  void record(const ops::OpEntry& entry, torch::jit::Stack* stack);

  /// The wrapper that stands for a real tensor; makes one on first sight. Wrapped numbers,
  /// undefined tensors and wrappers come back unchanged.
  at::Tensor lift(const at::Tensor& tensor);
  /// The same for an argument of the compiled call. Call before anything else is recorded.
  at::Tensor lift_argument(const at::Tensor& tensor, int32_t leaf);

  /// A copy of a real tensor that the program will own; see antegrad::constant. Throws CaptureError
  /// for one that belongs to the callable or takes part in autograd.
  at::Tensor lift_constant(const at::Tensor& tensor);

  /// A wrapper over a fresh stand-in with that metadata: a tangent. Returns its value too.
  std::pair<at::Tensor, ValueId> make_input(const torch_compat::TensorMetadata& metadata);

  /// Index in roots() of the root with this wrapper, or -1.
  int32_t root_of_wrapper(const at::Tensor& wrapper) const;
  /// The same for a real tensor.
  int32_t root_of(const at::Tensor& real) const;
  /// Value of the stand-in inside a wrapper, with pending mutations applied. Throws EscapeError for
  /// a stand-in of another capture.
  ValueId value_of(const at::Tensor& wrapper);

  std::vector<Root>& roots() { return roots_; }
  const std::vector<Root>& roots() const { return roots_; }
  std::shared_ptr<const CaptureLife> life() const { return life_; }

  /// To be told of each tensor that an operator wrote in place. A tensor that is written by an
  /// operator which saves it keeps itself alive (x.mul_(x)); the tracer ends that when it dies.
  void note_written(const at::Tensor& tensor);

  /// To be told of each view that an operator made.
  void note_view(const at::Tensor& view) {
    const std::lock_guard lock(mutex_);
    views.emplace_back(view.getIntrusivePtr());
  }
  /// Keeps the value of a wrapper that is about to get another one: see keep_sizes() in
  /// kernels.cpp.
  void keep_exchanged(at::Tensor value) {
    const std::lock_guard lock(mutex_);
    exchanged_.push_back(std::move(value));
  }
  /// To be told, while it is handled, of an error of ours that an operator of the callable raises.
  void note_raised() {
    const std::lock_guard lock(mutex_);
    raised_ = std::current_exception();
  }
  /// The last one, null for none.
  const std::exception_ptr& raised() const { return raised_; }

  Graph graph;
  ops::AttrTables tables;
  InferCounts counts;
  DataQuestions data_questions;
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
  Phase phase = Phase::forward;
  SeedSnapshot seed;  ///< of before the capture
  WrapperData data;
  /// Stand-ins that autograd calls views; some may have died.
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> views;
  std::vector<at::Tensor> reshaped_views;  ///< views whose sizes or strides were changed in place
  /// The checkpoint that the callable is in: what it records belongs to that.
  struct Block {
    int32_t number = -1;                                                 ///< of Graph::blocks
    const std::function<Recompute(std::string_view)>* policy = nullptr;  ///< null: all runs again
  };
  Block block;
  bool lazy_bits = false;            ///< some tensor was lazily conjugated or negated
  const InPlace* writing = nullptr;  ///< an operator that writes in place and is under way
  /// The node whose source line is wanted, by id, and that line once the node was recorded. For a
  /// node of the backward it is the line of the forward operator whose derivative it belongs to.
  int32_t locate = -1;
  std::string located;
  /// First token of each generator, by generator index, and the last one so far.
  std::vector<std::pair<ValueId, ValueId>> generator_tokens;
  /// First and last token of the chain of effects; kNoValue while there is none.
  std::pair<ValueId, ValueId> effect_tokens{kNoValue, kNoValue};

 private:
  struct Recording;
  void take_tensor(const at::Tensor& tensor, Recording& recording);
  void take_argument(const c10::IValue& value, ops::ArgKind kind, Recording& recording);
  void thread_tokens(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                     Recording& recording);
  std::vector<shapes::Spec> find_outputs(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                         const Recording& recording);
  c10::IValue add_output(const shapes::Spec& spec, StorageId storage, Recording& recording);
  void look_for_line(const Node& node);
  at::Tensor wrap(const torch_compat::TensorMetadata& metadata, ValueId value);
  ValueId add_value(const torch_compat::TensorMetadata& metadata, StorageId storage);

  // lift.cpp
  Root& add_root(const at::Tensor& tensor, Source source);
  at::Tensor lift_new(const at::Tensor& tensor, Source source);
  at::Tensor lift_member(const at::Tensor& tensor, const SharedMemory& shared, Source source);

  std::vector<torch_compat::WeakNode> writers_;
  // Where a node of the forward was recorded: the stack, and how many autograd nodes there were.
  struct Site {
    uint64_t sequence_number;
    std::vector<void*> frames;
  };
  std::vector<Site> sites_;  // while a line is looked for

  std::vector<at::Tensor> exchanged_;  // values of wrappers, whose sizes may still be referred to
  std::exception_ptr raised_;
  const SharedMemories& shared_;
  std::shared_ptr<CaptureLife> life_ = std::make_shared<CaptureLife>();
  std::recursive_mutex mutex_;
  std::vector<Root> roots_;
  std::unordered_map<const c10::TensorImpl*, size_t> root_by_impl_;
  /// Real tensors without a source that show the memory of a root, with their wrappers.
  std::unordered_map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> temporaries_;
};

}  // namespace antegrad::capture
