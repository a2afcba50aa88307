#pragma once

/// \file
/// The autograd node behind the results of a compiled call.

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <c10/core/StorageImpl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hooks/eager_hooks.h"
#include "runtime/executable.h"

namespace antegrad::runtime {

/// Holds the saved values of one forward, and runs the backward program once (or several times
/// under retain_graph). Throws BackwardError for a second pass over freed tensors and for
/// create_graph. A pass that does not retain the graph releases the saved tensors when its first
/// kernel starts, also if that throws. Backward passes may run on any thread; passes on several
/// threads run one after another.
class CompiledNode final : public torch::autograd::Node {
 public:
  CompiledNode(std::shared_ptr<const Executable> executable,
               torch::autograd::edge_list&& next_edges);

  /// Saves values from a finished forward as the slots say, or the tensors that hooks packed, by
  /// slot. Results already refer to this node.
  void save(const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
            const std::vector<at::Tensor>& handed, std::vector<at::Tensor> copies,
            std::vector<std::optional<hooks::PackedTensor>> packed);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  std::string name() const override { return "AntegradBackward:" + executable_->name(); }
  void release_variables() override;

 private:
  // The memory of a tensor's data. set_data(), which module.to() uses, replaces it without changing
  // the version.
  struct Memory {
    explicit Memory(const at::Tensor& tensor);
    bool is_that_of(const at::Tensor& tensor) const;

    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const void* data;
    at::ScalarType dtype;
  };
  struct Kept {
    torch::autograd::SavedVariable variable;     // primals and results
    std::optional<Memory> memory;                // the memory of `variable` when saved
    at::Tensor raw;                              // copies and intermediates
    std::optional<hooks::PackedTensor> packed;   // used instead of all these
    std::optional<c10::VariableVersion> shared;  // counter of a result with its memory
    uint32_t version = 0;                        // version after the forward
  };

  void check_shared_versions() const;
  BackwardKey key_for(torch::autograd::variable_list& tangents, bool releases) const;
  std::vector<at::Tensor> gather(const BackwardProgram& program,
                                 torch::autograd::variable_list& tangents);
  void release();

  std::shared_ptr<const Executable> executable_;
  std::mutex mutex_;  // guards the members below, and admits one backward pass at a time
  std::vector<Kept> kept_;
  bool freed_ = false;
};

}  // namespace antegrad::runtime
