#include <fmt/format.h>

#include <utility>

#include "graph/analysis.h"
#include "graph/verify_rules.h"

namespace antegrad::verify_detail {
namespace {

void ids_name_values(Facts& facts) {
  const Graph& graph = facts.graph;
  for (const Input& input : graph.inputs) {
    if (!graph.values.contains(input.value)) fail(fmt::format("an input is %{}", input.value));
  }
  for (const Node& node : graph.nodes) {
    for (const ValueId input : node.inputs) {
      if (!graph.values.contains(input)) fail(graph, node, fmt::format("%{} is no value", input));
    }
    for (const ValueId output : node.outputs) {
      if (output != kNoValue && !graph.values.contains(output)) {
        fail(graph, node, fmt::format("%{} is no value", output));
      }
    }
  }
  for (const Output& output : graph.outputs) {
    if (output.value != kNoValue && !graph.values.contains(output.value)) {
      fail(fmt::format("an output is %{}", output.value));
    }
  }
}

void one_definition(Facts& facts) {
  const Graph& graph = facts.graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueId id = graph.inputs[i].value;
    int32_t& definition = facts.definition[id];
    if (definition != kUndefined) fail(fmt::format("%{} stands twice among the inputs", id));
    definition = kGraphInput;
    facts.input_of[id] = static_cast<int32_t>(i);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      int32_t& definition = facts.definition[output];
      if (definition != kUndefined) {
        fail(graph, node, fmt::format("%{} is defined a second time", output));
      }
      definition = static_cast<int32_t>(i);
    }
  }
}

void defined_before_use(Facts& facts) {
  const Graph& graph = facts.graph;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId input : graph.nodes[i].inputs) {
      const int32_t definition = facts.definition[input];
      if (definition == kUndefined || definition >= static_cast<int32_t>(i)) {
        fail(graph, graph.nodes[i], fmt::format("%{} is used before its definition", input));
      }
    }
  }
  for (const Output& output : graph.outputs) {
    if (output.value == kNoValue) continue;
    if (facts.definition[output.value] == kUndefined) {
      fail(fmt::format("the output %{} is defined nowhere", output.value));
    }
  }
}

void arguments_take_all_inputs(Facts& facts) {
  const Graph& graph = facts.graph;
  for (const Node& node : graph.nodes) {
    if (!node.op) fail(graph, node, "the node has no operator");
    if (node.tokens < 0 || std::cmp_greater(node.tokens, node.outputs.size())) {
      fail(graph, node, fmt::format("{} tokens do not fit the outputs", node.tokens));
    }
    int64_t taken = node.tokens;
    for (const Attr& arg : node.args) taken += arg.input_count();
    if (taken != static_cast<int64_t>(node.inputs.size())) {
      fail(graph, node,
           fmt::format("arguments and tokens take {} inputs and there are {}", taken,
                       node.inputs.size()));
    }
  }
}

void tokens_stand_last(Facts& facts) {
  const Graph& graph = facts.graph;
  for (const Node& node : graph.nodes) {
    const size_t first_input = node.inputs.size() - node.tokens;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool token = graph.value(node.inputs[i]).kind == ValueKind::token;
      if (token != (i >= first_input)) {
        fail(graph, node,
             fmt::format("%{} is a token among data, or the other way round", node.inputs[i]));
      }
    }
    const size_t first_output = node.outputs.size() - node.tokens;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      const bool token = output != kNoValue && graph.value(output).kind == ValueKind::token;
      if (token != (i >= first_output)) {
        fail(graph, node, "each token that goes in comes out behind the other outputs");
      }
    }
  }
}

void tokens_form_threads(Facts& facts) {
  const Graph& graph = facts.graph;
  IdMap<ValueId, bool> used(graph.values.size(), false);
  const auto use = [&](ValueId token) {
    const bool again = used[token];
    used[token] = true;
    return !again;
  };
  IdMap<ValueId, bool> state(graph.values.size(), false);
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::saved) state[input.value] = true;
  }
  for (const Node& node : graph.nodes) {
    for (size_t i = node.inputs.size() - node.tokens; i < node.inputs.size(); ++i) {
      // Several draws may start from one saved state.
      if (state[node.inputs[i]]) continue;
      if (!use(node.inputs[i])) {
        fail(graph, node, fmt::format("the token %{} was used before", node.inputs[i]));
      }
    }
  }
  for (const Output& output : graph.outputs) {
    if (output.value == kNoValue || graph.value(output.value).kind != ValueKind::token) continue;
    // The state at the start of the draw.
    if (output.kind == OutputKind::saved) continue;
    if (!use(output.value)) fail(fmt::format("the token %{} is output and used", output.value));
  }
}

void draws_and_effects_carry_tokens(Facts& facts) {
  for (const Node& node : facts.graph.nodes) {
    const OpTraits& traits = node.op.traits();
    const bool draws = traits.random && !node.draws_nothing();
    if ((draws || traits.effect) && node.tokens == 0) {
      fail(facts.graph, node, "a random draw or an effect without a token may be moved or lost");
    }
  }
}

void blocks_are_known(Facts& facts) {
  const Graph& graph = facts.graph;
  for (size_t i = 0; i < graph.blocks.size(); ++i) {
    const int32_t around = graph.blocks[i];
    if (around < -1 || std::cmp_greater_equal(around, i)) {
      fail(fmt::format("block {} is in block {}, which does not come before", i, around));
    }
  }
  for (const Node& node : graph.nodes) {
    if (node.block < -1 || node.block >= static_cast<int32_t>(graph.blocks.size())) {
      fail(graph, node, fmt::format("there is no block {}", node.block));
    }
  }
}

void strides_match_sizes(Facts& facts) {
  const Graph& graph = facts.graph;
  const auto matches = [&graph](ValueId id) {
    const TensorMeta& meta = graph.value(id).meta;
    return graph.value(id).kind != ValueKind::tensor || meta.sizes.size() == meta.strides.size();
  };
  for (const Input& input : graph.inputs) {
    if (!matches(input.value)) fail(fmt::format("the input %{}", input.value));
  }
  for (const Node& node : graph.nodes) {
    for (const ValueId output : node.outputs) {
      if (output != kNoValue && !matches(output)) fail(graph, node, fmt::format("%{}", output));
    }
  }
}

void symbols_are_named(Facts& facts) {
  const Graph& graph = facts.graph;
  const auto named = [&graph](const auto& self, const IntExpr& expr) -> bool {
    if (expr.kind() == IntExpr::Kind::symbol) {
      return std::cmp_less(expr.symbol_id(), graph.symbols.size());
    }
    for (const IntExpr& operand : expr.operands()) {
      if (!self(self, operand)) return false;
    }
    return true;
  };
  const auto check = [&](ValueId id) {
    if (!graph.is_tensor(id)) return;
    const TensorMeta& meta = graph.value(id).meta;
    for (const Shape* shape : {&meta.sizes, &meta.strides}) {
      for (const IntExpr& entry : *shape) {
        if (!named(named, entry)) fail(fmt::format("%{} has the size {}", id, to_string(entry)));
      }
    }
    if (!named(named, meta.offset)) fail(fmt::format("the offset of %{}", id));
  };
  for (const Input& input : graph.inputs) check(input.value);
  for (const Node& node : graph.nodes) {
    for (const ValueId output : node.outputs) check(output);
  }
}

// In a backward by itself, nodes of the forward run again where they are needed.
void forward_does_not_wait_for_backward(Facts& facts) {
  const Graph& graph = facts.graph;
  if (has_backward(graph) && !is_joint(graph)) return;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) continue;
    for (const ValueId input : node.inputs) {
      const Node* producer = facts.producer(input);
      const int32_t position = facts.input_of[input];
      const bool late = (producer && producer->phase == Phase::backward) ||
                        (position >= 0 && graph.inputs[position].kind == InputKind::tangent);
      if (late) fail(graph, node, fmt::format("%{} belongs to the backward pass", input));
    }
  }
}

}  // namespace

constexpr Rules form_rules = {
    {"every id names a value", ids_name_values},
    {"a value has one definition", one_definition},
    {"a value is defined before it is used", defined_before_use},
    {"arguments and tokens take all inputs of a node", arguments_take_all_inputs},
    {"tokens stand behind the other inputs and outputs", tokens_stand_last},
    {"a token is used at most once", tokens_form_threads},
    {"random draws and effects carry tokens", draws_and_effects_carry_tokens},
    {"blocks are known, outer ones first", blocks_are_known},
    {"a tensor has a stride for each size", strides_match_sizes},
    {"every symbol has a name", symbols_are_named},
    {"the forward pass uses nothing of the backward pass", forward_does_not_wait_for_backward},
};

}  // namespace antegrad::verify_detail
