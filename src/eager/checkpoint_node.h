#pragma once

/// \file
/// The autograd node behind the results of a checkpointed block.

#include <antegrad/checkpoint.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <mutex>
#include <vector>

#include "eager/outside.h"
#include "torch_compat/autocast.h"
#include "torch_compat/inner_graph.h"

namespace antegrad::eager {

/// Metadata of a tensor leaf of the block's results.
struct ResultForm {
  bool defined = false;
  bool computed = false;  ///< its history is in the block: an input of the node
  bool repeated = false;  ///< the same tensor as an earlier leaf, which has the input
  at::ScalarType dtype = at::kFloat;
  c10::Device device = at::kCPU;
  std::vector<int64_t> sizes;

  friend bool operator==(const ResultForm&, const ResultForm&) = default;
};

/// The metadata of results, and the edge at which the gradient of each computed one arrives.
struct Results {
  std::vector<ResultForm> forms;
  std::vector<torch::autograd::Edge> edges;
  std::vector<size_t> leaves;  ///< by edge
};
Results results_of(const std::vector<at::Tensor>& leaves, const torch_compat::GraphMark& mark);

/// One recorded forward: enough to run it again and to check that the result is the same.
struct Recording {
  detail::RunAgain again;
  std::vector<HostValue> host;
  torch_compat::Autocast autocast;
  bool autocast_caches = false;
  Outside outside;
  std::vector<ResultForm> forms = {};
  std::vector<torch::autograd::Edge> targets = {};  ///< by leaving edge; none for unknown leaves
  torch_compat::SharedCasts casts = {};             ///< those among the targets
  std::vector<size_t> slots = {};                   ///< by leaving edge: the output of the node
};

/// Runs the block again, and gradients through it. Its outputs lead where the block's own graph
/// led, so the engine, hooks and accumulation outside see no difference. A backward pass that does
/// not retain the graph releases what the node holds once the block has started. Passes of several
/// threads run the block concurrently.
class CheckpointNode final : public torch::autograd::Node {
 public:
  CheckpointNode(std::shared_ptr<const Recording> recording,
                 const std::vector<at::Tensor>& arguments, torch::autograd::edge_list&& next_edges);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  std::string name() const override { return "AntegradCheckpoint"; }
  void release_variables() override;

 private:
  struct Saved {
    std::shared_ptr<const Recording> recording;
    Leaves arguments;
  };
  Saved take(bool keep);
  void release();

  std::mutex mutex_;  // guards the members below
  std::shared_ptr<const Recording> recording_;
  std::vector<torch::autograd::SavedVariable> arguments_;
  std::vector<at::Tensor> unversioned_;  // inference tensors, which cannot be saved
};

/// The output of the node for each leaving edge. Gradients of one target that arrive along few
/// edges are returned one by one, so that they are added to gradients from elsewhere in eager's
/// order. None for leaves that nobody can reach once the block's graph is destroyed, which it must
/// be.
std::vector<size_t> slots_for(const std::vector<torch::autograd::Edge>& targets);

}  // namespace antegrad::eager
