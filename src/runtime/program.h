#pragma once

/// \file
/// A graph as a list of ready operator calls.
///
/// Everything that does not change between calls is prepared once: operator handles, constant
/// arguments, which register a tensor comes from and whether that is its last use. Running pushes
/// arguments, calls the kernel and moves results to registers; a tensor is freed right after the
/// call that uses it last. Immutable after construction; any number of threads may run it at once.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "ops/answer.h"
#include "ops/attrs.h"
#include "ops/op_table.h"
#include "runtime/draws.h"
#include "runtime/kernel_error.h"
#include "runtime/undeclared_alias.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::runtime {

class Program {
 public:
  /// `tables` hold what the graph's attributes refer to. Throws GraphError for an operator that
  /// this libtorch does not have.
  Program(const Graph& graph, const ops::AttrTables& tables, AliasCheck aliases = AliasCheck::off);

  /// Runs below autograd and autocast. `inputs` has one tensor for each graph input, in order
  /// (undefined for tokens, but for a saved one the state of its generator); it is consumed, so
  /// that a tensor that only the caller passed dies at its last use. Returns one tensor for each
  /// graph output (undefined for absent ones and tokens, but for a saved one the state). What a
  /// kernel throws is thrown on with operator, node, program and, as far as `line_of` knows it,
  /// source line. Throws ops::UnexpectedAnswer where data are not as the graph assumes.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, const LineFinder& line_of = {}) const;

  /// Number of graph inputs, tokens included.
  size_t input_count() const { return inputs_.size(); }
  size_t instruction_count() const { return instructions_.size(); }

 private:
  // Where an argument comes from.
  enum class Origin : uint8_t { constant, copy, move, list, optional_list };
  struct Argument {
    Origin origin;
    int32_t index;  // constants_, register or lists_
  };
  struct ListEntry {
    Origin origin;  // copy, move, or constant for an undefined entry
    int32_t index;
  };
  // What few instructions have.
  struct Special {
    // One for each tensor that a custom operator returns, or one whose sizes depend on data; else
    // empty.
    std::vector<torch_compat::TensorMetadata> expected;
    AliasCheck aliases = AliasCheck::off;
    // Of a random operator that the backward repeats, in both programs.
    std::optional<RepeatableDraw> draw = std::nullopt;
    int32_t state = -1;  // register of the state that it begins with
    bool repeats = false;
    bool state_dies = false;  // nothing reads it after a repetition
  };
  // Programs live long: see graph/pack.h. Arguments and results of all instructions stand in one
  // list each.
  struct Instruction {
    const ops::OpEntry* entry;  // says how many arguments there are
    int32_t node_id;
    uint32_t first_argument;  // of arguments_
    uint32_t first_result;    // of results_
    uint32_t result_count = 0;
    int32_t special = -1;    // of specials_, -1 for none
    bool oversized = false;  // OpTraits::oversized
    // A node of the forward in a backward: some kernels (LSTM of oneDNN) do other things with grad
    // mode off.
    bool runs_again = false;
  };

  std::vector<at::Tensor> run_up_to(size_t& position, std::vector<at::Tensor> inputs) const;
  std::string place_of(const Instruction& instruction, const LineFinder& line_of) const;
  void call(const Instruction& instruction, std::vector<at::Tensor>& registers,
            torch::jit::Stack& stack) const;
  static void call_kernel(const ops::OpEntry& entry, const Special* special,
                          std::vector<at::Tensor>& registers, torch::jit::Stack& stack);
  static void check(const ops::OpEntry& entry,
                    const std::vector<torch_compat::TensorMetadata>& expected,
                    const torch::jit::Stack& stack);
  c10::IValue argument(const Argument& argument, std::vector<at::Tensor>& registers) const;

  std::string name_;
  std::vector<Instruction> instructions_;
  std::vector<Argument> arguments_;
  std::vector<int32_t> results_;  // registers, -1 to drop
  std::vector<Special> specials_;
  std::vector<c10::IValue> constants_;  // equal ones once
  std::vector<std::vector<ListEntry>> lists_;
  std::vector<int32_t> inputs_;   // register of each graph input, -1 when it is not used
  std::vector<int32_t> outputs_;  // register of each graph output, -1 for none
  int32_t register_count_ = 0;

  friend class ProgramBuilder;
};

}  // namespace antegrad::runtime
