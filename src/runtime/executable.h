#pragma once

/// \file
/// A partitioned graph that autograd can call: the forward program, backward programs, and the
/// values passed between them.
///
/// call() runs the forward, writes mutated inputs back, recomputes views of tensors that the caller
/// holds, and connects the results to one autograd node. Only intermediates are held raw. Saved
/// primals and results are SavedVariables, so that a change between forward and backward raises
/// eager's error. A saved intermediate that shares memory with a result is guarded by that result's
/// version. Nothing is freed early under retain_graph. Any number of threads may call at once.

#include <ATen/core/Tensor.h>
#include <antegrad/options.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/call_plan.h"
#include "graph/graph.h"
#include "hooks/eager_hooks.h"
#include "ops/attrs.h"
#include "runtime/backward_programs.h"
#include "runtime/call_inputs.h"
#include "runtime/derivative_programs.h"
#include "runtime/kernel_error.h"
#include "runtime/program.h"
#include "runtime/view_steps.h"
#include "torch_compat/autograd_node.h"

namespace antegrad::runtime {

/// A call that data stopped. It has computed what precedes the question.
struct StoppedCall {
  std::vector<at::Tensor> primals;
  std::vector<int32_t> staged;  ///< primals that the run may have replaced by copies
  Program::StoppedRun run;
};

/// Thrown by call() before the commit point: the data answer a question differently than capture
/// assumed.
struct OtherAnswer {
  std::vector<ops::Answer> answers;  ///< the true answers, up to the first difference
  /// The call, which the program that assumes them may continue; null if numbers were drawn.
  std::shared_ptr<StoppedCall> stopped = nullptr;
};

class Executable;

/// The parts of an executable. Graphs, tables and plan are the caller's: the constructor reads
/// them.
struct ExecutableParts {
  std::string name;                      ///< of the callable, shown by profilers
  std::shared_ptr<const CallPlan> plan;  ///< plan of `forward`
  const Graph& forward;                  ///< finished: it may contain in-place nodes
  const ops::AttrTables& tables;         ///< the tables of attributes of `forward` and `backward`
  /// The backward for usual_key(); null if it could not be captured.
  const Graph* backward = nullptr;
  ForwardValues forward_values = {};          ///< of `backward`
  BackwardSource source = {};                 ///< makes the backwards of other forms
  BackwardSource plain = {};                  ///< the same, without kernels and writes in place
  DerivativeSource derivatives = {};          ///< null: create_graph is an error
  LineFinder lines = {};                      ///< called if a kernel fails, on the failing thread
  std::vector<ops::Question> questions = {};  ///< questions about data in the forward, in order
  AliasCheck aliases = AliasCheck::off;       ///< for all programs
  KeptMemory kept_memory = KeptMemory::keep;  ///< for all programs
  GpuGraphs gpu_graphs = GpuGraphs::off;      ///< for forward and backwards
  std::span<const GeneratedKernel> forward_kernels = {};   ///< of `forward`
  std::span<const GeneratedKernel> backward_kernels = {};  ///< of `backward`
  const Executable* like = nullptr;  ///< one of other sizes, to share memory with
};

class Executable : public std::enable_shared_from_this<Executable> {
 public:
  explicit Executable(ExecutableParts parts);

  /// Takes `primals` in the order of the graph's primal inputs; returns one tensor per result.
  /// `hooks`, if given, run eagerly on saved values. If a kernel or a hook throws, inputs and
  /// generators are as before. Throws OtherAnswer. `stopped` is this call as far as another
  /// executable came, or null: where both do the same, it is continued.
  std::vector<at::Tensor> call(std::vector<at::Tensor> primals,
                               const std::shared_ptr<const detail::HookPair>& hooks = nullptr,
                               std::shared_ptr<StoppedCall> stopped = nullptr) const;

  /// The results of a call, and the node that connects them; null where nothing requires grad.
  struct Connected {
    std::vector<at::Tensor> results;
    torch_compat::NodePtr node;
  };
  /// call(), with its node.
  Connected connected_call(std::vector<at::Tensor> primals,
                           const std::shared_ptr<const detail::HookPair>& hooks = nullptr,
                           std::shared_ptr<StoppedCall> stopped = nullptr) const;

  /// The forward alone, of a plan that saves nothing and writes data alone. Takes no part in
  /// autograd. A primal without other owners dies at its last use. Throws what kernels throw: of
  /// primals that it may write over (Output::update), some may have their new values then.
  std::vector<at::Tensor> run_alone(std::vector<at::Tensor> primals) const;

  /// What the forward program of a call computes, again, from the inputs as they were. Throws
  /// BackwardError if data answer otherwise.
  std::vector<at::Tensor> outputs_again(const std::vector<at::Tensor>& primals) const;

  /// A whole step: the forward, the backward from tangents of ones, and the new values that it
  /// computes of inputs, which are written into them (CallPlan::updates). Nothing takes part in
  /// autograd. Returns one tensor per result. Where the backward can, it writes new values over old
  /// ones, so a kernel of it that throws leaves some inputs updated. Throws what call() and
  /// backward() throw.
  std::vector<at::Tensor> step(std::vector<at::Tensor> primals,
                               std::shared_ptr<StoppedCall> stopped = nullptr) const;

  /// The memory that the programs keep, see Program::bytes().
  int64_t bytes() const { return forward_.bytes() + backwards_.bytes() + derivatives_.bytes(); }
  const CallPlan& plan() const { return plan_; }
  const BackwardPrograms& backwards() const { return backwards_; }
  /// The backward of a form, without kernels and writes in place. Makes it each time.
  BackwardGraph plain_backward(const BackwardKey& key) const { return plain_(key); }
  /// Whether it may become part of another program.
  bool has_plain_backward() const { return plain_ != nullptr; }
  const DerivativePrograms& derivatives() const { return derivatives_; }
  /// Those that the forward draws from.
  const std::vector<at::Generator>& generators() const { return generators_; }
  /// One per tangent of the plan, in order.
  const std::vector<torch_compat::TensorMetadata>& tangents() const { return tangents_; }
  const LineFinder& lines() const { return lines_; }
  KeptMemory kept_memory() const { return kept_memory_; }
  /// Of forward and backwards; empty with GpuGraphs::off.
  std::vector<GpuGraphReport> graph_reports() const;
  const std::string& name() const { return name_; }
  /// Whether the forward programs share memory, and the usual backward programs.
  bool shares_with(const Executable& other) const;

 private:
  std::vector<at::Tensor> copy_overwritten(const std::vector<at::Tensor>& primals) const;
  void stage(std::vector<at::Tensor>& inputs) const;
  std::vector<at::Tensor> run_forward(const std::vector<at::Tensor>& primals,
                                      std::shared_ptr<StoppedCall> stopped,
                                      Replay replay = Replay::allowed) const;
  OtherAnswer other_answer(const ops::UnexpectedAnswer& unexpected) const;
  void write_back(const std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& primals) const;
  std::vector<at::Tensor> make_memory(const std::vector<at::Tensor>& outputs,
                                      const std::vector<at::Tensor>& primals) const;
  void check_inner_gradients(const torch_compat::NodePtr& region,
                             const std::vector<at::Tensor>& primals,
                             const std::vector<at::Tensor>& handed) const;
  void make_views(const std::vector<at::Tensor>& primals, std::vector<at::Tensor>& handed) const;
  torch_compat::NodePtr attach_node(const std::vector<at::Tensor>& primals,
                                    const std::vector<at::Tensor>& outputs,
                                    const std::vector<at::Tensor>& handed,
                                    std::vector<at::Tensor> copies,
                                    std::vector<std::optional<hooks::PackedTensor>> packed,
                                    std::optional<CallInputs> inputs) const;
  void allocate(const std::vector<at::Tensor>& primals, const GeneratorStates& before) const;
  void free_storages(const std::vector<at::Tensor>& primals) const;
  std::vector<at::Tensor> saved_values(const std::vector<at::Tensor>& primals,
                                       const std::vector<at::Tensor>& outputs,
                                       const std::vector<at::Tensor>& copies) const;
  void require_memory(const BackwardProgram& program, const std::vector<at::Tensor>& primals) const;
  std::vector<at::Tensor> gather(const BackwardProgram& program,
                                 const std::vector<at::Tensor>& saved) const;
  void write_updates(const BackwardProgram& program, std::vector<at::Tensor> outputs,
                     const std::vector<at::Tensor>& primals) const;
  std::vector<std::optional<hooks::PackedTensor>> pack_saved(
      const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
      const std::vector<at::Tensor>& copies,
      const std::shared_ptr<const detail::HookPair>& hooks) const;

  const std::string name_;
  const std::shared_ptr<const CallPlan> held_plan_;
  const CallPlan& plan_;
  const bool has_inner_;
  const std::vector<at::Generator> generators_;  // that the forward draws from
  const std::vector<int32_t> staged_;            // primals: CallPlan::Mutation::staged
  // What became of CUDA graphs; null with GpuGraphs::off.
  const std::shared_ptr<GraphCounts> forward_graphs_, backward_graphs_;
  const Program forward_;
  std::vector<ViewSteps> view_steps_;  // by entry of CallPlan::handed_out
  std::vector<torch_compat::TensorMetadata> tangents_;
  const std::vector<ops::Question> questions_;
  const LineFinder lines_;
  const KeptMemory kept_memory_;
  const BackwardPrograms backwards_;
  const DerivativePrograms derivatives_;
  const BackwardSource plain_;
};

}  // namespace antegrad::runtime
