#pragma once

/// \file
/// A partitioned graph, ready to be called from autograd: forward program, backward programs, and what
/// is handed from one to the other.
///
/// call() runs the forward, writes mutated inputs back, makes views again from what the caller holds, and
/// puts the results behind one autograd node. Only intermediates are held raw; saved primals and
/// results are SavedVariables, so that a change between forward and backward is the error that eager
/// gives. A saved intermediate that shares memory with a result is guarded by that result's version.
/// Nothing is freed early under retain_graph. Any number of threads may call at once.

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"
#include "runtime/backward_program.h"
#include "runtime/eager_hooks.h"
#include "runtime/kernel_error.h"
#include "runtime/program.h"
#include "runtime/view_steps.h"
#include "torch_compat/autograd_node.h"

namespace antegrad::runtime {

/// How one value that the forward saves is kept until backward.
struct SavedSlot {
  enum class Kind : uint8_t {
    primal,           ///< SavedVariable of primal `index`
    primal_copy,      ///< clone of primal `index`, which the forward overwrites
    written_primal,   ///< SavedVariable of primal `index` after the write
    handed_out,       ///< SavedVariable of tensor `index` that is handed out
    intermediate,     ///< output `index` of the forward program, held raw
    generator_state,  ///< the same of a saved token
  };
  Kind kind;
  int32_t index;
  /// intermediate: the tensor handed out whose memory it shares, -1 when none
  int32_t shares = -1;
  bool has_our_history = false;  ///< of the tensor that is kept as SavedVariable

  /// Not as a SavedVariable.
  bool held_raw() const {
    return kind == Kind::primal_copy || kind == Kind::intermediate || kind == Kind::generator_state;
  }
};

/// Thrown by call() before anything is committed: the data answer a question otherwise than the capture
/// assumed.
struct OtherAnswer {
  std::vector<ops::Answer> answers;  ///< the true ones, up to the first that differs
};

class Executable : public std::enable_shared_from_this<Executable> {
 public:
  /// `forward` as the partitioner made it; `gradients` are the gradient outputs of the joint graph, in
  /// order. `source` makes backward graphs, whose saved inputs must be saved outputs of `forward`.
  /// `lines` is asked when a kernel fails, on the thread on which it does. `questions` are those of the graph.
  Executable(const Graph& forward, const ops::AttrTables& tables,
             const std::vector<Output>& gradients, BackwardSource source, LineFinder lines = {},
             std::vector<ops::Question> questions = {});

  /// `primals` in the order of the graph's primal inputs. Returns one tensor a result.
  /// `hooks`, where given, run eagerly on what is saved. When a kernel or a hook throws, inputs and generators are as
  /// before. Throws OtherAnswer.
  std::vector<at::Tensor> call(
      std::vector<at::Tensor> primals,
      const std::shared_ptr<const detail::HookPair>& hooks = nullptr) const;

  /// The key of a backward pass from all tangents, as they usually are, to all gradients.
  BackwardKey usual_key() const;
  /// The program for a key; made now if there is none yet. Throws what the source throws.
  std::shared_ptr<const BackwardProgram> backward(const BackwardKey& key) const;

  /// Gives the program for a key beforehand.
  void add_backward(const BackwardKey& key, const BackwardGraph& backward);

  /// How many programs there are, and whether there is one for that key.
  size_t form_count() const;
  bool has_form(const BackwardKey& key) const;

  /// Values of `forward` that a backward program may write over when it releases what is saved.
  std::vector<ValueId> donated() const;

  size_t primal_count() const { return primal_count_; }
  /// Whether a backward pass can reach the region.
  bool differentiable() const { return !tangents_.empty(); }
  /// The callable's, as profilers show it.
  const std::string& name() const { return name_; }

 private:
  friend class CompiledNode;

  struct HandedOut {
    int32_t output = -1;  // of the forward program
    OutputAlias alias;
    bool leaf = false;  // requires grad and has no history
    bool differentiable = false;
    bool inner = false;
    int32_t version = 0;
    OwnView own_view = OwnView::none;
    ViewSteps steps;  // from what it is an alias of
  };
  struct Mutation {
    int32_t output;  // of the forward program
    int32_t primal;
    bool data, metadata, history, inner;
  };
  struct VersionBumps {
    int32_t primal, count;
  };

  void read_outputs(const Graph& forward, const ops::AttrTables& tables);
  void read_saved(const Graph& forward);
  std::shared_ptr<const BackwardProgram> find(const BackwardKey& key) const;
  std::shared_ptr<const BackwardProgram> add(const BackwardKey& key,
                                             std::shared_ptr<const BackwardProgram> program) const;
  std::shared_ptr<const BackwardProgram> prepare(const BackwardGraph& backward) const;

  std::vector<at::Tensor> copy_overwritten(const std::vector<at::Tensor>& primals) const;
  std::vector<at::Tensor> run_forward(const std::vector<at::Tensor>& primals) const;
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
                                    std::vector<std::optional<PackedTensor>> packed) const;
  std::vector<std::optional<PackedTensor>> pack_saved(
      const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
      const std::vector<at::Tensor>& copies,
      const std::shared_ptr<const detail::HookPair>& hooks) const;

  std::string name_;
  size_t primal_count_ = 0;
  size_t result_count_ = 0;
  std::vector<at::Generator> generators_;  // that the forward draws from
  Program forward_;
  std::vector<HandedOut> handed_out_;  // results, then bases
  std::vector<Mutation> mutations_;
  std::vector<ops::Question> questions_;  // that the forward asks of data, in order
  bool has_inner_ = false;                // results computed from others, or from what was written
  std::vector<int32_t> inner_views_;      // by primal: Input::inner
  std::vector<VersionBumps> version_bumps_;
  std::vector<ops::NaturalTangent> tangents_;  // one a differentiable output, in order
  std::vector<int32_t> tangent_of_output_;     // by output of the joint graph, -1 for none
  std::vector<SavedSlot> saved_;
  std::vector<ValueId> saved_values_;
  std::vector<int32_t> gradient_primals_;  // the primal of each gradient

  BackwardSource source_;
  LineFinder lines_;
  mutable std::mutex mutex_;  // guards what is below
  mutable std::vector<std::pair<BackwardKey, std::shared_ptr<const BackwardProgram>>> backwards_;
};

}  // namespace antegrad::runtime
