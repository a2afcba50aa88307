#pragma once

/// \file
/// The autograd node behind the results of a compiled call.

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hooks/eager_hooks.h"
#include "runtime/call_inputs.h"
#include "runtime/executable.h"
#include "runtime/kept_variable.h"
#include "torch_compat/formula_node.h"

namespace antegrad::runtime {

/// Holds the saved values of one forward, and runs the backward program once (or several times
/// under retain_graph). Throws BackwardError for a second pass over freed tensors. A pass that does
/// not retain the graph releases the saved tensors when its first kernel starts, also if that
/// throws. Backward passes may run on any thread; passes on several threads run one after another.
///
/// A pass with create_graph needs the inputs of the call. It runs a program that computes results
/// and gradients from them, and whose own node gives the derivatives. That node then takes the
/// place of this one, so that what arrives for results and for their gradients is added where eager
/// adds it. It leads to the inputs of the call alone: a TangentNode leads to the tangents, whose
/// history may lead here. The intermediates of the call, which nobody will read then, are freed
/// before that program runs; if the pass fails, they are computed again when they are read.
class CompiledNode final : public torch_compat::FormulaNode {
 public:
  CompiledNode(std::shared_ptr<const Executable> executable,
               torch::autograd::edge_list&& next_edges);

  /// Saves values from a finished forward as the slots say, or the tensors that hooks packed, by
  /// slot. Results already refer to this node.
  void save(const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
            const std::vector<at::Tensor>& handed, std::vector<at::Tensor> copies,
            std::vector<std::optional<hooks::PackedTensor>> packed,
            std::optional<CallInputs> inputs);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  std::string name() const override { return "AntegradBackward:" + executable_->name(); }
  void release_variables() override;
  bool show(std::string& key, std::vector<at::Tensor>& saved) override;
  Formula formula(std::vector<bool> wanted) override;

  /// For a TangentNode: by gradient of the plan, undefined where it is not wanted. They have a
  /// history if grad mode is on. What is saved is kept.
  torch::autograd::variable_list gradients_of_tangents(torch::autograd::variable_list&& tangents,
                                                       std::vector<bool> wanted);

 protected:
  void let_go() noexcept override;

 private:
  struct Kept {
    std::optional<KeptVariable> variable;        // primals and results
    at::Tensor raw;                              // copies and intermediates
    std::optional<hooks::PackedTensor> packed;   // used instead of all these
    std::optional<c10::VariableVersion> shared;  // counter of a result with its memory
    uint32_t version = 0;                        // version after the forward
  };

  // Where the gradient of a tensor arrives that somebody holds.
  struct Place {
    torch_compat::WeakNode node;
    uint32_t input;
  };

  Place place_of(size_t tangent);
  void check_shared_versions() const;
  std::vector<at::Tensor> gather(const BackwardProgram& program,
                                 torch::autograd::variable_list& tangents);
  torch::autograd::variable_list without_history(torch::autograd::variable_list&& tangents,
                                                 std::vector<bool> wanted, bool releases);
  void release();
  bool is_intermediate(size_t slot) const;
  void give_up_intermediates();
  void compute_again();

  // in derivative_pass.cpp
  torch::autograd::variable_list with_history(torch::autograd::variable_list&& tangents,
                                              std::vector<bool> wanted, bool replaces);
  std::vector<at::Tensor> arguments_of(const DerivativeProgram& program,
                                       const torch::autograd::variable_list& tangents);
  void lead_outside(const DerivativeProgram& program, const std::vector<at::Tensor>& arguments,
                    const std::vector<at::Tensor>& gradients);
  void note_places(CompiledNode& before, const DerivativeProgram& program);
  void be_replaced(const torch_compat::NodePtr& by, const std::vector<int32_t>& inputs);

  std::shared_ptr<const Executable> executable_;
  std::mutex mutex_;  // guards the members below, and admits one backward pass at a time
  std::vector<Kept> kept_;
  std::optional<CallInputs> inputs_;
  bool freed_ = false;
  bool gave_up_ = false;        // what compute_again() brings back
  bool is_replaced_ = false;    // each tangent goes on to the node that took its place
  bool gives_outside_ = false;  // to a TangentNode, also when it is replaced
  std::vector<Place> places_;   // by tangent, where it is not this node
  std::vector<std::pair<int32_t, Place>> outside_;  // primals that are held without their history
};

/// Kernels need strided tensors without lazy bits.
void make_plain(at::Tensor& tangent);
bool any_defined(const torch::autograd::variable_list& tensors);
[[noreturn]] void refuse_freed();

}  // namespace antegrad::runtime
