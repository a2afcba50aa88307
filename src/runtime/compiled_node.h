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

/// Holds what one forward saved, and runs the backward program once (or more often under
/// retain_graph). Errors: BackwardError for a second pass over freed tensors and for create_graph.
/// A pass that does not retain them gives the saved tensors up when its first kernel starts, also
/// when one throws. Any thread may run a backward pass; passes on several threads take turns.
class CompiledNode final : public torch::autograd::Node {
 public:
  CompiledNode(std::shared_ptr<const Executable> executable,
               torch::autograd::edge_list&& next_edges);

  /// Takes what the saved slots say from a finished forward, or what hooks made of it, by slot.
  /// What is handed out carries this node already.
  void save(const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& outputs,
            const std::vector<at::Tensor>& handed, std::vector<at::Tensor> copies,
            std::vector<std::optional<hooks::PackedTensor>> packed);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  std::string name() const override { return "AntegradBackward:" + executable_->name(); }
  void release_variables() override;

 private:
  // Where the data of a tensor was. set_data(), which module.to() uses, exchanges it without a new
  // version.
  struct Memory {
    explicit Memory(const at::Tensor& tensor);
    bool is_that_of(const at::Tensor& tensor) const;

    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const void* data;
    at::ScalarType dtype;
  };
  struct Kept {
    torch::autograd::SavedVariable variable;     // primals and results
    std::optional<Memory> memory;                // what `variable` showed
    at::Tensor raw;                              // copies and intermediates
    std::optional<hooks::PackedTensor> packed;   // instead of all these
    std::optional<c10::VariableVersion> shared;  // counter of the result that shares its memory
    uint32_t version = 0;                        // its value after the forward
  };

  void check_shared_versions() const;
  BackwardKey key_for(torch::autograd::variable_list& tangents, bool releases) const;
  std::vector<at::Tensor> gather(const BackwardProgram& program,
                                 torch::autograd::variable_list& tangents);
  void release();

  std::shared_ptr<const Executable> executable_;
  std::mutex mutex_;  // guards what is below, and lets one backward pass in at a time
  std::vector<Kept> kept_;
  bool freed_ = false;
};

}  // namespace antegrad::runtime
