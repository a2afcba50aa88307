#pragma once

/// \file
/// A graph as a list of prepared operator calls.
///
/// Everything that is constant between calls is prepared once: operator handles, constant
/// arguments, the register of each tensor and whether this is its last use. Running an instruction
/// pushes arguments, calls the kernel and moves results to registers. A tensor is freed right after
/// its last use. Immutable after construction; any number of threads may run it at once.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/answer.h"
#include "ops/attrs.h"
#include "ops/op_table.h"
#include "runtime/draws.h"
#include "runtime/generated_kernel.h"
#include "runtime/kernel_error.h"
#include "runtime/program_graphs.h"
#include "runtime/undeclared_alias.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::runtime {

/// Whether a run may replay a CUDA graph, whose memory keeps what the backward will read.
enum class Replay : uint8_t { allowed, never };

class Program {
 public:
  struct StoppedRun;

  /// `tables` hold the objects that the graph's attributes refer to. Programs whose graphs differ
  /// in numbers only share most of their memory: `like` is another one, or null. `own` are
  /// positions of inputs that nobody else sees: a twin may write over one at its last use.
  /// `kernels` are those of generated nodes, by place (lower/kernel_graph.h). With `graphs`, runs
  /// are recorded as CUDA graphs, and counted there. Throws GraphError for an operator unknown to
  /// this libtorch.
  Program(const Graph& graph, const ops::AttrTables& tables, AliasCheck aliases = AliasCheck::off,
          const Program* like = nullptr, const std::vector<int32_t>& own = {},
          std::span<const GeneratedKernel> kernels = {},
          std::shared_ptr<GraphCounts> graphs = nullptr);

  /// Runs below autograd and autocast. `inputs` has one tensor per graph input, in order: undefined
  /// for tokens, except that a saved token has the state of its generator. It is consumed, so that
  /// a tensor without other owners dies at its last use. Returns one tensor per graph output:
  /// undefined for absent outputs and tokens, except that a saved token has the state. Exceptions
  /// of kernels are rethrown with operator, node, program and, if `line_of` knows it, source line.
  /// Throws ops::UnexpectedAnswer if data differ from what the graph assumes, and then describes
  /// the run in `stopped`, unless that is null.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, const LineFinder& line_of = {},
                              StoppedRun* stopped = nullptr, Replay replay = Replay::allowed) const;

  /// Whether this program does up to the question what the stopped one did, and assumes the answer
  /// that was found, as the caller knows.
  bool can_continue(const StoppedRun& run) const;
  /// Continues it. Generators must be as they were when the run was stopped.
  std::vector<at::Tensor> continue_run(StoppedRun run, const LineFinder& line_of = {},
                                       StoppedRun* stopped = nullptr) const;

  /// The memory that it keeps, without constant tensors and objects, and without what it shares
  /// with `like`; an estimate.
  int64_t bytes() const;
  /// Whether the two share memory.
  bool shares_with(const Program& other) const { return code_ == other.code_; }
  /// Number of graph inputs, tokens included.
  size_t input_count() const { return code_->inputs.size(); }

 private:
  // The source of an argument.
  enum class Origin : uint8_t { constant, copy, move, number, list, optional_list };
  struct Argument {
    Origin origin;
    int32_t index;  // index into constants_, registers (number: read as a Scalar) or Code::lists
    friend bool operator==(const Argument&, const Argument&) = default;
  };
  // Rarely used parts of an instruction.
  struct Special {
    // One per tensor, for results of custom operators and results whose sizes depend on data;
    // otherwise empty.
    std::vector<torch_compat::TensorMetadata> expected;
    AliasCheck aliases = AliasCheck::off;
    // For a random operator that the backward repeats, in both programs.
    std::optional<RepeatableDraw> draw = std::nullopt;
    int32_t state = -1;  // register of the state before the draw
    bool repeats = false;
    bool state_dies = false;  // a repetition is the last use of the state
  };
  // Programs live long, so they are compact: see graph/pack.h. Arguments and results of all
  // instructions are stored in one list each.
  struct Instruction {
    const ops::OpEntry* entry;  // determines the number of arguments; null: a generated kernel
    int32_t node_id;
    uint32_t first_argument;  // index into Code::arguments
    uint32_t first_result;    // index into Code::results
    uint32_t result_count = 0;
    int32_t special = -1;    // index into specials_, -1 for none; or into generated_
    bool oversized = false;  // OpTraits::oversized
    // A forward node in a backward: some kernels (LSTM of oneDNN) take another path without grad
    // mode.
    bool runs_again = false;
    uint16_t overwrites = 0;  // a bit for each argument that a twin may write over
    friend bool operator==(const Instruction&, const Instruction&) = default;
  };
  // What programs of other sizes share.
  struct Code {
    std::vector<Instruction> instructions;
    std::vector<Argument> arguments;
    std::vector<int32_t> results;              // registers, -1 to drop
    std::vector<std::vector<Argument>> lists;  // copies, moves, constants for undefined entries
    std::vector<int32_t> inputs;               // register of each graph input, -1 if unused
    std::vector<int32_t> outputs;              // register of each graph output, -1 for none
    int32_t register_count = 0;
    friend bool operator==(const Code&, const Code&) = default;
  };

  std::vector<at::Tensor> into_registers(std::vector<at::Tensor> inputs) const;
  std::optional<std::vector<at::Tensor>> replay_graph(std::vector<at::Tensor>& inputs) const;
  std::vector<at::Tensor> run_from(size_t position, std::vector<at::Tensor> registers,
                                   const LineFinder& line_of, StoppedRun* stopped) const;
  std::vector<at::Tensor> run_up_to(size_t& position, std::vector<at::Tensor>& registers,
                                    torch::jit::Stack& stack) const;
  static bool is_users_hook(const Instruction& instruction);
  std::string place_of(const Instruction& instruction, const LineFinder& line_of) const;
  void call(const Instruction& instruction, std::vector<at::Tensor>& registers,
            torch::jit::Stack& stack) const;
  void call_generated(const Instruction& instruction, std::vector<at::Tensor>& registers) const;
  void store_results(const Instruction& instruction, std::vector<at::Tensor>& registers,
                     torch::jit::Stack& stack) const;
  static void call_kernel(const Instruction& instruction, const Special* special,
                          std::vector<at::Tensor>& registers, torch::jit::Stack& stack);
  static void check(const ops::OpEntry& entry,
                    const std::vector<torch_compat::TensorMetadata>& expected,
                    const torch::jit::Stack& stack);
  c10::IValue argument(const Argument& argument, std::vector<at::Tensor>& registers) const;

  std::string name_;
  std::shared_ptr<const Code> code_;
  bool owns_code_ = true;
  std::vector<Special> specials_;
  std::vector<GeneratedCall> generated_;
  std::vector<c10::IValue> constants_;     // without duplicates
  std::shared_ptr<ProgramGraphs> graphs_;  // null without Options::gpu_graphs

  friend class ProgramBuilder;
};

/// A run that data stopped: they answered a question otherwise than its program assumes.
struct Program::StoppedRun {
  std::shared_ptr<const Code> code = nullptr;  ///< null if the run cannot be continued
  std::vector<c10::IValue> constants = {};
  std::vector<GeneratedCall> generated = {};
  size_t position = 0;  ///< of the question, which has run
  std::vector<at::Tensor> registers = {};
};

}  // namespace antegrad::runtime
