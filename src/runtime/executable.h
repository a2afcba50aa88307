#pragma once

/// \file
/// A partitioned graph, ready to be called from autograd: forward program, backward program, and what
/// is handed from one to the other.
///
/// call() runs the forward, writes mutated inputs back, and puts the results behind one autograd node.
/// Only intermediates are held raw; saved primals and results are SavedVariables, so that a change
/// between forward and backward is the error that eager gives. A saved intermediate that shares memory
/// with a result is guarded by that result's version. Nothing is freed early under retain_graph.
/// Immutable after construction; any number of threads may call at once.

#include <ATen/core/Tensor.h>

#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"
#include "runtime/program.h"

namespace antegrad::runtime {

/// How one input of the backward program is kept between forward and backward.
struct SavedSlot {
  enum class Kind : uint8_t {
    primal,        ///< SavedVariable of primal `index`
    primal_copy,   ///< clone of primal `index`, which the forward overwrites
    result,        ///< SavedVariable of result `index`
    intermediate,  ///< output `index` of the forward program, held raw
  };
  Kind kind;
  int32_t index;
  /// intermediate: the result whose memory it shares, -1 when none
  int32_t shares_result = -1;
};

class Executable : public std::enable_shared_from_this<Executable> {
 public:
  /// `forward` and `backward` as the partitioner made them; `backward` has no outputs for inference.
  /// `backward_error` is raised when backward is asked for.
  Executable(const Graph& forward, const Graph& backward, const ops::AttrTables& tables,
             std::exception_ptr backward_error);

  /// `primals` in the order of the graph's primal inputs. Returns one tensor a result.
  std::vector<at::Tensor> call(std::vector<at::Tensor> primals) const;

  size_t primal_count() const { return primal_count_; }
  const std::string& name() const { return name_; }

 private:
  friend class CompiledNode;

  static constexpr int32_t kTokenInput = std::numeric_limits<int32_t>::min();

  struct Result {
    int32_t output = -1;  // of the forward program
    OutputAlias alias;
    bool differentiable = false;  // has a tangent
  };
  struct Tangent {
    std::vector<int64_t> sizes, strides;
  };
  struct Mutation {
    int32_t output;  // of the forward program
    int32_t primal;
  };

  void read_outputs(const Graph& forward);
  void read_backward(const Graph& forward, const Graph& backward);
  std::vector<at::Tensor> pick_results(const std::vector<at::Tensor>& outputs,
                                       const std::vector<at::Tensor>& primals) const;
  void attach_node(const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
                   std::vector<at::Tensor>& results, std::vector<at::Tensor> copies) const;

  std::string name_;
  size_t primal_count_ = 0;
  Program forward_;
  std::optional<Program> backward_;
  std::exception_ptr backward_error_;
  std::vector<Result> results_;
  std::vector<Mutation> mutations_;
  std::vector<Tangent> tangents_;  // one a differentiable result, in order
  std::vector<SavedSlot> saved_;   // one a saved input of the backward program
  std::vector<int32_t>
      backward_inputs_;  // by backward input: saved slot, ~k for tangent k, or kTokenInput
  std::vector<int32_t> gradient_outputs_;  // backward outputs that are defined gradients
  std::vector<int32_t> gradient_primals_;  // the primal of each
};

}  // namespace antegrad::runtime
