#include "broken_passes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "graph/analysis.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace {

bool is(const Node& node, std::string_view op) { return node.op.info().base_name == op; }

const TensorMeta& meta(const Graph& graph, ValueId id) { return graph.value(id).meta; }

bool alike(const Graph& graph, ValueId a, ValueId b) {
  return graph.is_tensor(a) && graph.is_tensor(b) && meta(graph, a) == meta(graph, b);
}

void swap_inputs(Graph& graph, std::string_view op) {
  for (Node& node : graph.nodes) {
    if (is(node, op) && node.inputs.size() == 2 && alike(graph, node.inputs[0], node.inputs[1])) {
      std::swap(node.inputs[0], node.inputs[1]);
    }
  }
}

// `by` replaces `value` in nodes behind `position` and in outputs.
void replace(Graph& graph, ValueId value, ValueId by, size_t position) {
  for (size_t i = position + 1; i < graph.nodes.size(); ++i) {
    std::ranges::replace(graph.nodes[i].inputs, value, by);
  }
  for (Output& output : graph.outputs) {
    if (output.value == value) output.value = by;
  }
}

// The first input of such a node replaces its result.
void skip(Graph& graph, std::string_view op, const std::function<bool(const Node&)>& only = {}) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node node = graph.nodes[i];
    if (!is(node, op) || (only && !only(node))) continue;
    if (alike(graph, node.inputs[0], node.outputs[0])) {
      replace(graph, node.outputs[0], node.inputs[0], i);
    }
  }
  graph = dce(std::move(graph));
}

// Merges nodes that are equal as far as `key` tells.
void merge(Graph& graph, std::string_view op,
           const std::function<std::vector<ValueId>(const Node&)>& key) {
  std::map<std::vector<ValueId>, ValueId> seen;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node node = graph.nodes[i];
    if (!is(node, op)) continue;
    const auto [known, added] = seen.try_emplace(key(node), node.outputs[0]);
    if (!added && alike(graph, known->second, node.outputs[0])) {
      replace(graph, node.outputs[0], known->second, i);
    }
  }
  graph = dce(std::move(graph));
}

void set_argument(Graph& graph, std::string_view op, size_t position, const Attr& value) {
  for (Node& node : graph.nodes) {
    if (is(node, op) && position < node.args.size()) node.args[position] = value;
  }
}

// The first node that writes where it should not.
void write_in_place(Graph& graph, const std::function<bool(const Graph&, size_t)>& wrong) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const OpInfo& info = node.op.info();
    const bool could = info.traits.pointwise && !info.traits.mutates &&
                       !info.inplace_name.empty() && node.outputs.size() == 1 &&
                       node.args[0].is<attr::Input>() && node.inputs.size() <= 2 &&
                       alike(graph, node.inputs[0], node.outputs[0]);
    if (!could || !wrong(graph, i)) continue;
    node.op = Op::intern(info.inplace_name);
    const StorageId storage = graph.value(node.inputs[0]).storage, old(node.outputs[0]);
    for (Value& value : graph.values) {
      if (value.storage == old) value.storage = storage;
    }
    return;
  }
}

bool reads_again(const Graph& graph, size_t position, ValueId id) {
  return std::any_of(
      graph.nodes.begin() + static_cast<std::ptrdiff_t>(position) + 1, graph.nodes.end(),
      [&](const Node& node) { return std::ranges::find(node.inputs, id) != node.inputs.end(); });
}

// Two entries of one kind that a position, not an id, tells apart.
void swap_saved(Graph& graph, ValueKind kind) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    for (size_t j = i + 1; j < graph.inputs.size(); ++j) {
      Input &a = graph.inputs[i], &b = graph.inputs[j];
      const bool saved = a.kind == InputKind::saved && b.kind == InputKind::saved;
      if (!saved || graph.value(a.value).kind != kind || graph.value(b.value).kind != kind)
        continue;
      if (kind == ValueKind::tensor && !alike(graph, a.value, b.value)) continue;
      for (Node& node : graph.nodes) {
        for (ValueId& id : node.inputs) {
          id = id == a.value ? b.value : id == b.value ? a.value : id;
        }
      }
      return;
    }
  }
}

ValueId first_input(const Node& node) { return node.inputs.empty() ? kNoValue : node.inputs[0]; }

constexpr BrokenPass kBroken[] = {
    // ---- rewrites
    {"sub_is_commutative", "no_ops", "", "vae", [](Graph& g) { swap_inputs(g, "aten::sub"); }},
    {"neg_is_a_no_op", "no_ops", "", "llama", [](Graph& g) { skip(g, "aten::neg"); }},
    {"scale_is_a_no_op", "no_ops", "", "llama", [](Graph& g) { skip(g, "aten::mul"); }},
    {"relu_of_relu", "no_ops", "", "resnet", [](Graph& g) { skip(g, "aten::relu"); }},
    {"mask_is_a_no_op", "no_ops", "", "bert", [](Graph& g) { skip(g, "aten::masked_fill"); }},
    {"a_sum_of_two_keeps_one", "dce", "", "graphnet", [](Graph& g) { skip(g, "aten::add"); }},
    {"tanh_approximation", "no_ops", "", "mlp",
     [](Graph& g) { set_argument(g, "aten::gelu", 1, std::string("tanh")); }},
    {"epsilon_is_lost", "size_only_inputs", "", "mlp",
     [](Graph& g) { set_argument(g, "aten::native_layer_norm", 4, 0.5); }},
    {"scale_is_lost", "size_only_inputs", "", "gpt",
     [](Graph& g) { set_argument(g, "aten::native_dropout_backward", 2, 1.0); }},
    {"wrong_dimension", "dce", "", "gpt",
     [](Graph& g) { set_argument(g, "aten::_log_softmax", 1, IntExpr(0)); }},
    {"another_dtype_between", "no_ops", "", "mlp_autocast",
     [](Graph& g) { set_argument(g, "aten::_log_softmax_backward_data", 2, DType::f16); }},
    // ---- merges
    {"constants_are_equal", "cse", "", "llama",
     [](Graph& g) { merge(g, "aten::pow", [](const Node& n) { return n.inputs; }); }},
    {"masks_are_equal", "cse", "", "bert",
     [](Graph& g) {
       merge(g, "aten::native_dropout", [](const Node&) { return std::vector<ValueId>(); });
     }},
    {"second_operands_are_equal", "cse", "", "lstm",
     [](Graph& g) {
       merge(g, "aten::mul", [](const Node& n) { return std::vector{first_input(n)}; });
     }},
    // ---- the partition
    {"saved_tensors_swapped", "split", "backward", "mlp",
     [](Graph& g) { swap_saved(g, ValueKind::tensor); }},
    {"states_of_draws_swapped", "split", "backward", "mlp",
     [](Graph& g) { swap_saved(g, ValueKind::token); }},
    {"gradient_passes_by", "split", "backward", "resnet",
     [](Graph& g) { skip(g, "aten::threshold_backward"); }},
    {"gradient_of_tanh_passes_by", "split", "backward", "lstm",
     [](Graph& g) { skip(g, "aten::tanh_backward"); }},
    // ---- writes
    {"an_input_is_written", "reinplace", "", "mlp",
     [](Graph& g) {
       write_in_place(g, [](const Graph& graph, size_t i) {
         const ValueId target = graph.nodes[i].inputs[0];
         const bool input = std::ranges::any_of(graph.inputs, [&](const Input& x) {
           return x.value == target && x.kind != InputKind::saved;
         });
         return input && !reads_again(graph, i, target);
       });
     }},
    {"written_too_early", "reinplace", "", "llama",
     [](Graph& g) {
       write_in_place(g, [](const Graph& graph, size_t i) {
         const ValueId target = graph.nodes[i].inputs[0];
         return graph.owns_storage(target) && reads_again(graph, i, target);
       });
     }},
    {"another_operator_in_place", "reinplace", "", "gpt",
     [](Graph& g) {
       for (Node& node : g.nodes) {
         if (is(node, "aten::add_")) node.op = Op::intern("aten::sub_.Tensor");
       }
     }},
};

}  // namespace

decltype(PassContext::after) BrokenPass::after() const {
  return [this](std::string_view of_pass, std::string_view of_part, Graph& result) {
    if (of_pass == pass && of_part == part) apply(result);
  };
}

std::span<const BrokenPass> broken_passes() { return kBroken; }

}  // namespace antegrad::testing
