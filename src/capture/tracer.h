#pragma once

/// \file
/// The state of a running capture: the growing graph, and the values of stand-ins.
///
/// A Tracer lives on the stack of capture(). The capturing thread, and engine threads that libtorch
/// starts for it, find it through current(). Recording takes a lock, since the engine may run
/// threads of several devices in parallel.

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
#include "capture/derivative.h"
#include "capture/infer.h"
#include "capture/numbers.h"
#include "capture/placeholder.h"
#include "capture/resizes.h"
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
  /// `shared` is memory that an earlier run of the same capture found to be shared. It must outlive
  /// the tracer.
  explicit Tracer(const SharedMemories& shared);
  ~Tracer() override;

  /// The capture on this thread, or on the thread that this one works for; null if there is none.
  static Tracer* current();

  /// Records one call and replaces the arguments on the stack by its outputs. Arguments are
  /// stand-ins (not in wrappers), numbers that libtorch wrapped, or real tensors, which become
  /// constants. A twin leaves its newly created outputs, then one list with the new values of its
  /// written arguments. Throws CaptureError if the call cannot be captured.
  void record(const ops::OpEntry& entry, torch::jit::Stack* stack);

  /// The wrapper for a real tensor, created at its first use. Wrapped numbers, undefined tensors
  /// and wrappers are returned unchanged.
  at::Tensor lift(const at::Tensor& tensor);
  /// The same for an argument of the compiled call. Must be called before anything else is
  /// recorded.
  at::Tensor lift_argument(const at::Tensor& tensor, int32_t leaf);

  /// The wrapper for a number of the call, as a result.
  at::Tensor lifted_number(const SymbolicNumber& number);

  /// A copy of a real tensor that the program will own; see antegrad::constant. Throws CaptureError
  /// for a tensor that belongs to the callable or takes part in autograd.
  at::Tensor lift_constant(const at::Tensor& tensor);

  /// A wrapper over a new stand-in with this metadata, for a tangent. Also returns its value.
  std::pair<at::Tensor, ValueId> make_input(const torch_compat::TensorMetadata& metadata);

  /// Index in roots() of the root with this wrapper, or -1.
  int32_t root_of_wrapper(const at::Tensor& wrapper) const;
  /// The same for a real tensor.
  int32_t root_of(const at::Tensor& real) const;
  /// Value of the stand-in in a wrapper, after pending mutations. Throws EscapeError for a stand-in
  /// of another capture.
  ValueId value_of(const at::Tensor& wrapper);

  std::vector<Root>& roots() { return roots_; }
  const std::vector<Root>& roots() const { return roots_; }
  std::shared_ptr<const CaptureLife> life() const { return life_; }

  /// Must be called for each tensor that an operator wrote in place. A tensor written by an
  /// operator that saves it keeps itself alive (x.mul_(x)); the tracer breaks this cycle at its
  /// end.
  void note_written(const at::Tensor& tensor);

  /// Must be called for each view that an operator made.
  void note_view(const at::Tensor& view) {
    const std::lock_guard lock(mutex_);
    views.emplace_back(view.getIntrusivePtr());
  }
  /// Keeps the value of a wrapper that is about to be replaced: see keep_sizes() in kernels.cpp.
  void keep_exchanged(at::Tensor value) {
    const std::lock_guard lock(mutex_);
    exchanged_.push_back(std::move(value));
  }
  /// Must be called in the handler of an antegrad error that an operator of the callable raises.
  void note_raised() {
    const std::lock_guard lock(mutex_);
    raised_ = std::current_exception();
  }
  /// The last raised error; null if none.
  const std::exception_ptr& raised() const { return raised_; }

  // in resizes.cpp
  /// Resizes the storage of a root: resize_storage_(). Throws MutationError.
  void resize(const at::Tensor& wrapper, int64_t bytes);
  /// Whether the storage of a root had no memory for it when the call began.
  static bool began_empty(const Root& root);
  /// Whether the wrapper shows memory that has no data now.
  bool lacks_data(const at::Tensor& wrapper);
  /// Throws the first read of memory without data in the forward.
  void require_data() const;
  bool found_read_without_data() const { return without_data_.refusal != nullptr; }
  /// What became of a root's storage so far. Throws MutationError for what a program cannot do.
  InputStorage storage_of_input(const Root& root);
  /// After a backward: throws MutationError if it left storages in another state than the forward,
  /// which had these sizes, by root.
  void require_sizes(const std::vector<int64_t>& bytes);
  std::vector<int64_t> sizes_of_storages() const;

  /// Whether the callable used a placeholder.
  bool has_computed() const { return !computed_.empty(); }

  Graph graph;
  ops::AttrTables tables;
  /// Those that the callable used. Later captures of a call are given those of the first one.
  std::vector<PlaceholderUse> placeholders;
  InferCounts counts;
  DataQuestions data_questions;
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
  std::shared_ptr<Numbers> numbers;                    ///< of the call; null for none
  std::vector<ops::NumberUse::Primal> number_primals;  ///< by first use; index in roots()
  Phase phase = Phase::forward;
  Cut cut;            ///< of the last backward, and of passes with create_graph before it
  SeedSnapshot seed;  ///< state before the capture
  FixedStorages fixed_storages;
  WrapperData data;
  /// Stand-ins that autograd treats as views; some may be dead.
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> views;
  std::vector<at::Tensor> reshaped_views;  ///< views whose sizes or strides were changed in place
  /// The innermost checkpoint of the callable, to which recorded nodes belong.
  struct Block {
    int32_t number = -1;                                                 ///< index in Graph::blocks
    const std::function<Recompute(std::string_view)>* policy = nullptr;  ///< null: recompute all
  };
  Block block;
  /// Outside of checkpoints: what nodes say about their results.
  Recompute tag = Recompute::as_decided;
  bool lazy_bits = false;  ///< whether some tensor was lazily conjugated or negated
  BytesAtCall bytes_at_call;
  /// Whether such a read throws at once. Otherwise the run goes on, and finds shared memory.
  bool refuses_reads = false;
  const InPlace* writing = nullptr;  ///< the in-place operator whose call is running
  /// The id of the node whose source line is wanted, and the line after the node was recorded. For
  /// a node of the backward, it is the line of the forward operator whose derivative it belongs to.
  int32_t locate = -1;
  std::string located;
  /// The first and the latest token of each generator, by generator index.
  std::vector<std::pair<ValueId, ValueId>> generator_tokens;
  /// First and last token of the chain of effects; kNoValue if there is none.
  std::pair<ValueId, ValueId> effect_tokens{kNoValue, kNoValue};

 private:
  struct Recording;
  void take_tensor(const at::Tensor& tensor, Recording& recording);
  void take_number(const SymbolicNumber& number, Recording& recording);
  void take_argument(const c10::IValue& value, ops::ArgKind kind, Recording& recording);
  void thread_tokens(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                     Recording& recording);
  std::vector<shapes::Spec> find_outputs(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                         const Recording& recording);
  c10::IValue add_output(const shapes::Spec& spec, StorageId storage, Recording& recording);
  void look_for_line(const Node& node);
  at::Tensor wrap(const torch_compat::TensorMetadata& metadata, ValueId value);
  ValueId add_value(const torch_compat::TensorMetadata& metadata, StorageId storage);

  // in resizes.cpp
  void note_size(Root& root);
  void set_bytes(Root& root, int64_t bytes);
  bool is_filled(const Root& root);
  bool overwrite(const ops::OpEntry& entry, torch::jit::Stack* stack);
  void note_reads(const Node& node);
  void refuse_read(const Node& node, const Root& root);
  void save_readers(const Root& root);

  // in lift.cpp
  size_t lift_number(const SymbolicNumber& number);
  Root& add_root(const at::Tensor& tensor, Source source);
  at::Tensor lift_new(const at::Tensor& tensor, Source source);
  at::Tensor lift_member(const at::Tensor& tensor, const SharedMemory& shared, Source source);
  at::Tensor computed(const PlaceOf& place);
  Gradients gradients_of(const std::shared_ptr<Placeholder>& placeholder);

  std::vector<torch_compat::WeakNode> writers_;
  // Where a node of the forward was recorded: the stack, and the number of autograd nodes at that
  // moment.
  struct Site {
    uint64_t sequence_number;
    std::vector<void*> frames;
  };
  std::vector<Site> sites_;  // only while a line is searched

  std::vector<at::Tensor> exchanged_;  // values of wrappers whose sizes may be in use
  std::exception_ptr raised_;
  WithoutData without_data_;
  const SharedMemories& shared_;
  std::shared_ptr<CaptureLife> life_ = std::make_shared<CaptureLife>();
  std::recursive_mutex mutex_;
  std::vector<Root> roots_;
  std::unordered_map<const c10::TensorImpl*, size_t> root_by_impl_;
  std::unordered_map<const Placeholder*, std::vector<at::Tensor>> computed_;
  const Placeholder* computing_ = nullptr;  // whose compute() runs
  /// Real tensors without a source that share memory with a root, with their wrappers.
  std::unordered_map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> temporaries_;
};

}  // namespace antegrad::capture
