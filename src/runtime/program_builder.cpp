#include <antegrad/error.h>

#include <algorithm>
#include <unordered_map>

#include "graph/analysis.h"
#include "graph/generated_node.h"
#include "ops/number_arguments.h"
#include "runtime/generator_states.h"
#include "runtime/program.h"

namespace antegrad::runtime {

// Bits of Instruction::overwrites.
constexpr size_t kMaskBits = 16;

// Turns nodes into instructions. Registers are numbered by first use.
class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const ops::AttrTables& tables, AliasCheck aliases,
                 const std::vector<int32_t>& own, std::span<const GeneratedKernel> kernels,
                 Program& program)
      : graph_(graph),
        tables_(tables),
        aliases_(aliases),
        kernels_(kernels),
        program_(program),
        registers_(graph.values.size(), -1),
        state_generator_(graph.values.size(), -1),
        is_backward_(std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                 [](const Output& o) { return o.kind == OutputKind::gradient; })),
        last_use_(last_uses(graph, Uses::by_nodes_and_outputs)),
        own_(graph.values.size(), false) {
    for (const auto input : own) own_[graph.inputs[input].value] = true;
  }

  void build(const Program* like) {
    find_states();
    for (const auto& input : graph_.inputs) {
      const bool used = has_register(input.value) && last_use_[input.value] >= 0;
      code_.inputs.push_back(used ? register_of(input.value) : -1);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto& node = graph_.nodes[i];
      const auto position = static_cast<int32_t>(i);
      is_generated(node) ? add_generated(node, position) : add(node, position);
    }
    for (const auto& output : graph_.outputs) {
      const bool present = output.value != kNoValue && has_register(output.value) &&
                           (is_tensor(output.value) || output.kind == OutputKind::saved);
      code_.outputs.push_back(present ? register_of(output.value) : -1);
    }
    code_.register_count = next_register_;
    code_.instructions.shrink_to_fit();
    code_.arguments.shrink_to_fit();
    code_.results.shrink_to_fit();
    program_.constants_.shrink_to_fit();
    program_.generated_.shrink_to_fit();
    program_.owns_code_ = like == nullptr || !(*like->code_ == code_);
    program_.code_ =
        program_.owns_code_ ? std::make_shared<const Program::Code>(std::move(code_)) : like->code_;
  }

 private:
  bool is_tensor(ValueId value) const { return graph_.value(value).kind == ValueKind::tensor; }

  // Saved tokens are represented by the states of their generators.
  bool has_register(ValueId value) const {
    return is_tensor(value) || state_generator_[value] >= 0;
  }

  void find_states() {
    const auto note = [&](const auto& record) {
      if (record.value != kNoValue && graph_.value(record.value).kind == ValueKind::token) {
        state_generator_[record.value] = record.index;
      }
    };
    for (const auto& input : graph_.inputs) {
      if (input.kind == InputKind::saved) note(input);
    }
    for (const auto& output : graph_.outputs) {
      if (output.kind == OutputKind::saved) note(output);
    }
  }

  // A draw from a saved token: recorded in the program that saves it, repeated in the one that
  // receives it.
  void add_draw(const Node& node, int32_t node_index, Program::Special& special) {
    for (const auto token : node.token_inputs()) {
      const auto generator = state_generator_[token];
      if (generator < 0) continue;
      AG_CHECK(!special.draw, "a draw from two generators");
      special.draw.emplace(ops::entry_of(node.op), generator_of(graph_, tables_, generator));
      special.state = register_of(token);
      special.state_dies = last_use_[token] == node_index;
      special.repeats =
          std::any_of(graph_.inputs.begin(), graph_.inputs.end(), [&](const Input& input) {
            return input.value == token && input.kind == InputKind::saved;
          });
    }
  }

  int32_t register_of(ValueId value) {
    auto& reg = registers_[value];
    if (reg < 0) reg = next_register_++;
    return reg;
  }

  // Whether input `position` of the node is the last use of its value.
  bool dies_here(const Node& node, int32_t node_index, size_t position) const {
    const auto value = node.inputs[position];
    return last_use_[value] == node_index &&
           std::find(node.inputs.begin() + static_cast<std::ptrdiff_t>(position) + 1,
                     node.inputs.end(), value) == node.inputs.end();
  }

  Program::Argument constant(const Attr& attr) {
    const auto [it, added] =
        constants_.try_emplace(attr, static_cast<int32_t>(program_.constants_.size()));
    if (added) program_.constants_.push_back(ops::to_ivalue(attr, tables_));
    return {Program::Origin::constant, it->second};
  }

  Program::Instruction next_instruction(const ops::OpEntry* entry, const Node& node) const {
    return {entry, node.id, static_cast<uint32_t>(code_.arguments.size()),
            static_cast<uint32_t>(code_.results.size())};
  }

  // The register of a result, -1 if nobody needs it.
  int32_t register_of_result(ValueId value) {
    const bool used = value != kNoValue && last_use_[value] >= 0;
    return used ? register_of(value) : -1;
  }

  void add_generated(const Node& node, int32_t node_index) {
    auto instruction = next_instruction(nullptr, node);
    instruction.special = static_cast<int32_t>(program_.generated_.size());
    instruction.result_count = static_cast<uint32_t>(node.outputs.size());
    program_.generated_.emplace_back(graph_, node, kernels_[place_of_kernel(node)]);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto origin =
          dies_here(node, node_index, i) ? Program::Origin::move : Program::Origin::copy;
      code_.arguments.push_back({origin, register_of(node.inputs[i])});
    }
    for (const auto output : node.outputs) code_.results.push_back(register_of_result(output));
    code_.instructions.push_back(std::move(instruction));
  }

  void add(const Node& node, int32_t node_index) {
    auto instruction = next_instruction(&ops::entry_of(node.op), node);
    auto& arguments = code_.arguments;
    instruction.runs_again = is_backward_ && node.phase == Phase::forward;
    instruction.oversized = node.op.traits().oversized;
    const auto& kinds = instruction.entry->args;
    if (kinds.size() != node.args.size()) {
      throw GraphError("expected " + std::to_string(kinds.size()) + " arguments for " +
                       node.op.name() + ", found " + std::to_string(node.args.size()) +
                       "; the graph was written for another version of libtorch");
    }
    size_t next = 0;
    const auto take = [&] {
      const auto position = next++;
      const auto origin =
          dies_here(node, node_index, position) ? Program::Origin::move : Program::Origin::copy;
      return Program::Argument{origin, register_of(node.inputs[position])};
    };
    for (size_t i = 0; i < node.args.size(); ++i) {
      const auto& arg = node.args[i];
      if (arg.is<attr::Input>() && ops::may_be_number(*instruction.entry, i)) {
        arguments.push_back({Program::Origin::number, register_of(node.inputs[next++])});
      } else if (arg.is<attr::Input>()) {
        if (instruction.entry->is_twin && i < kMaskBits && own_[node.inputs[next]] &&
            dies_here(node, node_index, next)) {
          instruction.overwrites |= 1U << i;
        }
        arguments.push_back(take());
      } else if (arg.is<attr::InputList>()) {
        std::vector<Program::Argument> list;
        for (const bool present : arg.as<attr::InputList>().present) {
          list.push_back(present ? take() : Program::Argument{Program::Origin::constant, -1});
        }
        code_.lists.push_back(std::move(list));
        const bool optional = kinds[i] == ops::ArgKind::optional_tensors;
        arguments.push_back({optional ? Program::Origin::optional_list : Program::Origin::list,
                             static_cast<int32_t>(code_.lists.size() - 1)});
      } else if (arg.is<attr::None>() && kinds[i] == ops::ArgKind::tensor &&
                 !instruction.entry->optional[i]) {
        if (undefined_ < 0) {
          undefined_ = static_cast<int32_t>(program_.constants_.size());
          program_.constants_.emplace_back(at::Tensor());
        }
        arguments.push_back({Program::Origin::constant, undefined_});
      } else {
        arguments.push_back(constant(arg));
      }
    }
    Program::Special special;
    for (const auto output : node.results()) {
      code_.results.push_back(register_of_result(output));
      if (instruction.entry->custom || instruction.entry->policy == ops::Policy::dynamic_outputs) {
        using torch_compat::TensorMetadata;
        special.expected.push_back(output == kNoValue
                                       ? TensorMetadata{.defined = false}
                                       : TensorMetadata::of(graph_.value(output).meta));
      }
    }
    instruction.result_count = static_cast<uint32_t>(node.results().size());
    special.aliases = alias_check_for(*instruction.entry, aliases_);
    add_draw(node, node_index, special);
    if (special.draw || !special.expected.empty()) {
      instruction.special = static_cast<int32_t>(program_.specials_.size());
      program_.specials_.push_back(std::move(special));
    }
    code_.instructions.push_back(std::move(instruction));
  }

  const Graph& graph_;
  const ops::AttrTables& tables_;
  const AliasCheck aliases_;
  const std::span<const GeneratedKernel> kernels_;
  Program& program_;
  Program::Code code_;
  IdMap<ValueId, int32_t> registers_;
  IdMap<ValueId, int32_t> state_generator_;  // of a saved token
  bool is_backward_;
  IdMap<ValueId, int32_t> last_use_;
  IdMap<ValueId, bool> own_;  // inputs that a twin may write over
  int32_t next_register_ = 0;
  struct AttrHash {
    size_t operator()(const Attr& attr) const { return hash_value(attr); }
  };
  std::unordered_map<Attr, int32_t, AttrHash> constants_;  // by their attribute
  int32_t undefined_ = -1;                                 // the constant for an undefined tensor
};

Program::Program(const Graph& graph, const ops::AttrTables& tables, AliasCheck aliases,
                 const Program* like, const std::vector<int32_t>& own,
                 std::span<const GeneratedKernel> kernels, std::shared_ptr<GraphCounts> graphs)
    : name_(graph.name) {
  if (graphs != nullptr) graphs_ = std::make_shared<ProgramGraphs>(graph, std::move(graphs));
  ProgramBuilder(graph, tables, aliases, own, kernels, *this).build(like);
}

int64_t Program::bytes() const {
  const auto held = [](const auto&... lists) {
    return (... + static_cast<int64_t>(lists.capacity() * sizeof(lists[0])));
  };
  int64_t bytes = held(specials_, constants_);
  for (const auto& constant : constants_) {
    if (constant.isIntList()) bytes += constant.toIntList().size() * sizeof(int64_t);
  }
  for (const auto& kernel : generated_) bytes += kernel.bytes();
  if (!owns_code_) return bytes;
  const auto& code = *code_;
  bytes +=
      held(code.instructions, code.arguments, code.results, code.lists, code.inputs, code.outputs);
  for (const auto& list : code.lists) bytes += held(list);
  return bytes;
}

}  // namespace antegrad::runtime
