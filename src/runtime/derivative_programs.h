#pragma once

/// \file
/// Programs for passes with create_graph through a call: of the callable together with the
/// gradients that the pass asks for, so that these gradients have a history.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "graph/call_plan.h"
#include "runtime/made_on_demand.h"
#include "torch_compat/autocast.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::runtime {

class Executable;

/// A pass as it arrives at the node of a call.
struct DerivativePass {
  const CallPlan& plan;                                      ///< of the call
  const std::vector<torch_compat::TensorMetadata>& outputs;  ///< by tangent
  const std::vector<at::Tensor>& tangents;                   ///< some undefined
  std::vector<bool> wanted;                                  ///< by gradient of the plan
  torch_compat::Autocast autocast;
};

struct DerivativeProgram {
  struct Input {
    enum class Kind : uint8_t {
      primal,   ///< of the call
      tangent,  ///< of the call
      result,  ///< stands for the output with this tangent: something at which its gradient arrives
      constant,  ///< in `constants`
    } kind;
    int32_t index;
  };
  std::shared_ptr<const Executable> executable;
  std::vector<Input> inputs;  ///< by primal of the executable
  std::vector<at::Tensor> constants;
  std::vector<int32_t> gradients;  ///< by gradient of the call: the result, -1 if not wanted
  /// By tangent of the call: the tangent of the executable for the same output.
  std::vector<int32_t> outputs;
  /// By gradient of the executable's plan: whether it is that of a tangent of a pass, or of a
  /// result.
  std::vector<bool> leads_outside;
  /// Whether its node takes the place of that of the call.
  bool replaces = true;
};

/// Makes the program for such passes. Throws CaptureError, BackwardError, and what compiling
/// throws.
using DerivativeSource = std::function<DerivativeProgram(const DerivativePass&)>;

/// Makes programs on demand, and keeps the newest. Thread-safe.
class DerivativePrograms {
 public:
  /// Without a source there are none.
  explicit DerivativePrograms(DerivativeSource source) : source_(std::move(source)) {}

  bool available() const { return source_ != nullptr; }
  std::shared_ptr<const DerivativeProgram> get(const DerivativePass& pass) const;
  /// The memory that they keep, see Program::bytes().
  int64_t bytes() const;

 private:
  struct Tangent {
    torch_compat::TensorMetadata metadata;
    c10::DispatchKeySet keys = {};
    bool requires_grad = false;
    bool leaf = false;
    friend bool operator==(const Tangent&, const Tangent&) = default;
  };
  struct Key {
    std::vector<Tangent> tangents;
    std::vector<bool> wanted;
    torch_compat::Autocast autocast;
    friend bool operator==(const Key&, const Key&) = default;
  };
  // Strides and sizes of tangents may differ each time. What a graph holds of programs that go
  // stays alive.
  static constexpr size_t kMostForms = 16;

  static Tangent described(const at::Tensor& tangent);

  const DerivativeSource source_;
  mutable MadeOnDemand<Key, DerivativeProgram> programs_{kMostForms};
};

}  // namespace antegrad::runtime
