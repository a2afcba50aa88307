#include "explain/dot.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/analysis.h"
#include "graph/text.h"
#include "graph/text_words.h"

namespace antegrad {
namespace {

std::string dot_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

struct Look {
  bool OpTraits::*trait;
  const char* attributes;
};

// The first matching trait decides.
constexpr Look kLooks[] = {
    {&OpTraits::view, "style=dashed, color=\"#8b939c\", fontcolor=\"#59636e\""},
    {&OpTraits::compute_intensive, "fillcolor=\"#ffd9b8\""},
    {&OpTraits::random, "fillcolor=\"#f1d5ef\""},
    {&OpTraits::collective, "fillcolor=\"#d8d2f5\""},
    {&OpTraits::reduction, "fillcolor=\"#fff0b3\""},
    {&OpTraits::pointwise, "fillcolor=\"#d3e8fb\""},
};

const char* look(const OpTraits& traits) {
  for (const Look& row : kLooks) {
    if (traits.*row.trait) return row.attributes;
  }
  return "fillcolor=\"#ffffff\"";
}

class DotWriter {
 public:
  explicit DotWriter(const std::string& name) {
    out_ = fmt::format(
        "digraph \"{}\" {{\n  rankdir=TB; nodesep=0.2; ranksep=0.3; bgcolor=white; "
        "fontname=\"sans-serif\";\n"
        "  node [shape=box, style=\"rounded,filled\", fillcolor=white, color=\"#59636e\", "
        "fontname=\"sans-serif\", fontsize=11, margin=\"0.12,0.05\"];\n"
        "  edge [color=\"#59636e\", arrowsize=0.6];\n",
        dot_escaped(name));
  }

  std::string finish() { return out_ + "}\n"; }

  void open_frame(std::string_view id, std::string_view label) {
    out_ += fmt::format(
        "  subgraph \"cluster_{}\" {{\n  label=\"{}\"; labeljust=l; style=rounded; "
        "color=\"#c5ccd3\"; fontcolor=\"#59636e\";\n",
        id, label);
  }
  void close_frame() { out_ += "  }\n"; }

  /// `again`: the node is recomputed.
  void node(const std::string& id, const Graph& graph, const Node& node, bool again) {
    std::string label = dot_escaped(short_name(node.op.name()));
    for (const ValueId output : node.outputs) {
      if (output == kNoValue || graph.value(output).kind == ValueKind::token) continue;
      label += fmt::format("\\n%{} {}", output, dot_escaped(value_text(graph.value(output))));
    }
    out_ += fmt::format("  \"{}\" [label=\"{}\", {}{}];\n", id, label, look(node.op.traits()),
                        again ? ", color=\"#d9600a\", penwidth=2" : "");
  }

  void input(const std::string& id, const Graph& graph, const Input& input) {
    const std::string& source = input.source.name;
    std::string label = dot_escaped(source);
    if (source.empty()) label = text::word(text::kInputKinds, input.kind);
    if (input.source.kind == Source::Kind::argument) {
      label = fmt::format("argument {}", input.source.index);
    }
    if (graph.value(input.value).kind != ValueKind::token) {
      label +=
          fmt::format("\\n%{} {}", input.value, dot_escaped(value_text(graph.value(input.value))));
    }
    out_ +=
        fmt::format("  \"{}\" [label=\"{}\", shape=ellipse, fillcolor=\"#eef1f4\"];\n", id, label);
  }

  void output(const std::string& id, const Output& output) {
    std::string label(text::word(text::kOutputKinds, output.kind));
    if (output.index != -1) label += fmt::format(" {}", output.index);
    out_ +=
        fmt::format("  \"{}\" [label=\"{}\", shape=ellipse, fillcolor=\"#d9f0e3\"];\n", id, label);
  }

  void saved(const std::string& id, const Graph& graph, ValueId value) {
    out_ += fmt::format("  \"{}\" [label=\"saved\\n%{} {}\", penwidth=2.5];\n", id, value,
                        dot_escaped(value_text(graph.value(value))));
  }

  void edge(const std::string& from, const std::string& to, bool bold, bool token) {
    const char* attributes = "";
    if (bold) attributes = " [penwidth=2.5, color=\"#1f6fd0\"]";
    if (token) attributes = " [style=dotted]";
    out_ += fmt::format("  \"{}\" -> \"{}\"{};\n", from, to, attributes);
  }

 private:
  std::string out_;
};

/// Writes one graph. `prefix` distinguishes the names of two graphs; a joint graph has none.
class GraphWriter {
 public:
  GraphWriter(DotWriter& out, const Graph& graph, std::string prefix)
      : out_(out),
        graph_(graph),
        prefix_(std::move(prefix)),
        joint_(prefix_.empty()),
        producer_(producers(graph)),
        input_position_(input_positions(graph)),
        last_use_(last_uses(graph, Uses::by_nodes_and_outputs)) {}

  /// Marks nodes of the backward that also ran in the forward, except views.
  void mark_again(const Graph& forward) {
    std::set<int32_t> ran;
    for (const Node& node : forward.nodes) {
      if (node.id >= 0 && !node.op.traits().view) ran.insert(node.id);
    }
    for (const Node& node : graph_.nodes) {
      if (ran.count(node.id) != 0) again_.insert(node.id);
    }
  }

  std::string node_id(size_t node) const { return fmt::format("{}n{}", prefix_, node); }
  std::string input_id(size_t input) const { return fmt::format("{}i{}", prefix_, input); }
  std::string output_id(size_t output) const { return fmt::format("{}o{}", prefix_, output); }

  /// The producer of a value, in DOT.
  std::string maker(ValueId value) const {
    const int32_t producer = producer_[value];
    return producer >= 0 ? node_id(producer) : input_id(std::max(input_position_[value], 0));
  }

  void nodes(Phase phase) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase == phase) out_.node(node_id(i), graph_, node, again_.count(node.id) != 0);
    }
  }
  void all_nodes() {
    nodes(Phase::forward);
    nodes(Phase::backward);
  }

  /// Inputs and outputs, except saved values, which a partition draws itself.
  void interface() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Input& input = graph_.inputs[i];
      const bool used = last_use_[input.value] >= 0;
      if (input.kind != InputKind::saved && used) out_.input(input_id(i), graph_, input);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Output& output = graph_.outputs[i];
      if (output.value == kNoValue || output.kind == OutputKind::saved) continue;
      out_.output(output_id(i), output);
      out_.edge(maker(output.value), output_id(i), false, is_token(output.value));
    }
  }

  void edges() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      std::vector<ValueId> inputs = node.inputs;
      std::sort(inputs.begin(), inputs.end());
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
      for (const ValueId input : inputs) {
        out_.edge(maker(input), node_id(i), crosses(node, input), is_token(input));
      }
    }
  }

 private:
  bool is_token(ValueId value) const { return graph_.value(value).kind == ValueKind::token; }

  /// Whether a backward node of a joint graph reads a forward value.
  bool crosses(const Node& node, ValueId input) const {
    const int32_t producer = producer_[input];
    if (!joint_ || node.phase != Phase::backward) return false;
    if (producer >= 0) return graph_.nodes[producer].phase == Phase::forward;
    const int32_t position = input_position_[input];
    return position >= 0 && graph_.inputs[position].kind == InputKind::primal;
  }

  DotWriter& out_;
  const Graph& graph_;
  std::string prefix_;
  bool joint_;
  IdMap<ValueId, int32_t> producer_, input_position_, last_use_;
  std::set<int32_t> again_;  // by Node::id
};

}  // namespace

std::string to_dot(const Graph& graph) {
  DotWriter out(graph.name);
  GraphWriter writer(out, graph, "");
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const auto name = text::word(text::kPhases, phase);
    out.open_frame(name, name);
    writer.nodes(phase);
    out.close_frame();
  }
  writer.interface();
  writer.edges();
  return out.finish();
}

std::string to_dot(const Partition& partition) {
  DotWriter out(partition.forward.name);
  GraphWriter forward(out, partition.forward, "f");
  GraphWriter backward(out, partition.backward, "b");
  backward.mark_again(partition.forward);
  out.open_frame("forward", "forward");
  forward.all_nodes();
  out.close_frame();
  out.open_frame("backward", "backward");
  backward.all_nodes();
  out.close_frame();
  forward.interface();
  backward.interface();
  forward.edges();
  backward.edges();
  // Saved values are inputs of the backward: its edges start at the boxes drawn here.
  for (size_t i = 0; i < partition.backward.inputs.size(); ++i) {
    const Input& input = partition.backward.inputs[i];
    if (input.kind != InputKind::saved) continue;
    out.saved(backward.input_id(i), partition.backward, input.value);
    out.edge(forward.maker(input.value), backward.input_id(i), true, false);
  }
  return out.finish();
}

}  // namespace antegrad
