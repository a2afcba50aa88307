#include "graph/text.h"

#include <algorithm>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/text_quote.h"
#include "graph/text_words.h"

namespace antegrad {

std::string text::quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string text::word_text(std::string_view word) {
  return is_bare_word(word) ? std::string(word) : quoted(word);
}

namespace {

constexpr size_t kRecordColumn = 36;  // column of the record of an input
constexpr size_t kNodeIdColumn = 88;  // column of a node's id, unless its line is longer

std::string shape_text(const Shape& shape, char open, char close) {
  std::string text(1, open);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += to_string(shape[i]);
  }
  return text + close;
}

bool has_default_strides(const TensorMeta& meta) {
  try {
    return meta.strides == contiguous_strides(meta.sizes);
  } catch (const GraphError&) {
    return false;  // sizes whose product overflows: invalid graphs must be printable
  }
}

/// "%3: f32[8] &1 ~0"
std::string definition_text(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "none";
  if (!graph.values.contains(id)) return fmt::format("%{}: ?", id);
  const Value& value = graph.value(id);
  std::string text = fmt::format("%{}: {}", id, value_text(value));
  if (value.storage != StorageId(id)) text += fmt::format(" &{}", value.storage);
  if (value.alias_class != value.storage) text += fmt::format(" ~{}", value.alias_class);
  return text;
}

template <class Range, class Text>
void print_line_of(std::string& out, std::string_view title, const Range& range, Text text) {
  if (range.empty()) return;
  out += fmt::format("{:<11}", title);
  for (size_t i = 0; i < range.size(); ++i) {
    if (i > 0) out += ", ";
    out += text(i);
  }
  out += "\n";
}

}  // namespace

std::string value_text(const Value& value) {
  if (value.kind != ValueKind::tensor) {
    return std::string(text::word(text::kValueKinds, value.kind));
  }
  const TensorMeta& meta = value.meta;
  std::string text(name(meta.dtype));
  text += shape_text(meta.sizes, '[', ']');
  if (!has_default_strides(meta)) text += shape_text(meta.strides, '{', '}');
  if (meta.offset != IntExpr(0)) text += "+" + to_string(meta.offset);
  if (meta.device != Device{}) text += " " + to_string(meta.device);
  return text;
}

std::string input_text(const Graph& graph, const Input& input) {
  std::string text = definition_text(graph, input.value);
  text.resize(std::max(text.size() + 1, kRecordColumn), ' ');
  text += text::word(text::kInputKinds, input.kind);
  if (input.index != -1) text += fmt::format(" {}", input.index);
  if (input.source != Source{}) {
    text += fmt::format(" {}", text::word(text::kSourceKinds, input.source.kind));
    if (input.source.index != -1) text += fmt::format(" {}", input.source.index);
    if (!input.source.name.empty()) text += " " + text::quoted(input.source.name);
    if (input.source.via != Source::Via::itself) {
      text += fmt::format(" {}", text::word(text::kSourceVias, input.source.via));
    }
  }
  if (input.requires_grad) text += " grad";
  if (input.mutates_data) text += " mutates_data";
  if (input.mutates_metadata) text += " mutates_metadata";
  if (input.inner) text += " inner";
  if (input.storage != InputStorage::kept) {
    text += fmt::format(" {}", text::word(text::kInputStorages, input.storage));
  }
  if (input.storage == InputStorage::allocates) {
    text += fmt::format(" {}", to_string(input.storage_bytes));
  }
  if (input.version_bumps != 0) text += fmt::format(" version {}", input.version_bumps);
  return text;
}

std::string output_text(const Output& output) {
  std::string text = output.value == kNoValue ? "none" : fmt::format("%{}", output.value);
  text += fmt::format(" {}", text::word(text::kOutputKinds, output.kind));
  if (output.index != -1) text += fmt::format(" {}", output.index);
  if (output.alias != OutputAlias{}) {
    text += fmt::format(" {}", text::word(text::kAliasKinds, output.alias.kind));
    if (output.alias.index != -1) text += fmt::format(" {}", output.alias.index);
  }
  if (output.requires_grad) text += " grad";
  if (output.leaf) text += " leaf";
  if (output.inner) text += " inner";
  if (output.version != 0) text += fmt::format(" version {}", output.version);
  if (output.own_view != OwnView::none) {
    text += fmt::format(" {}", text::word(text::kOwnViews, output.own_view));
  }
  if (output.update) text += " update";
  return text;
}

std::string node_text(const Graph& graph, const Node& node) {
  std::string text;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (i > 0) text += ", ";
    text += definition_text(graph, node.outputs[i]);
  }
  if (!node.outputs.empty()) text += " = ";
  if (!node.op) return text + "?";
  const OpInfo& info = node.op.info();
  text += info.name + "(";
  size_t next = 0;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const Attr& arg = node.args[i];
    if (i > 0) text += ", ";
    const size_t count = std::max(arg.input_count(), 0);
    if (next + count > node.inputs.size()) {
      text += "%?";
      next = node.inputs.size();
      continue;
    }
    const bool tensor = arg.is<attr::Input>() || arg.is<attr::InputList>();
    if (!tensor && i < info.arg_names.size() && text::is_identifier(info.arg_names[i])) {
      text += info.arg_names[i] + "=";
    }
    text += attr_text(arg, node.inputs.data() + next);
    next += count;
  }
  const char* separator = "; ";
  for (; next < node.inputs.size(); ++next) {
    text += fmt::format("{}%{}", separator, node.inputs[next]);
    separator = ", ";
  }
  text += ")";
  if (node.block != -1) text += fmt::format(" in {}", node.block);
  if (node.recompute != Recompute::as_decided) {
    text += fmt::format(" {}", text::word(text::kRecompute, node.recompute));
  }
  return text;
}

std::string to_text(const Graph& graph) {
  std::string out =
      fmt::format("{} {} {}\n", text::kMagic, text::kVersion, text::quoted(graph.name));
  print_line_of(out, "symbols", graph.symbols, [&graph](size_t i) {
    const std::string id = fmt::format("s{}", i);
    return graph.symbols[i] == id ? id : id + " " + text::quoted(graph.symbols[i]);
  });
  print_line_of(out, "generators", graph.generators,
                [&graph](size_t i) { return text::word_text(graph.generators[i]); });
  print_line_of(out, "opaque", graph.opaque_names,
                [&graph](size_t i) { return text::word_text(graph.opaque_names[i]); });
  print_line_of(out, "blocks", graph.blocks, [&graph](size_t i) {
    return graph.blocks[i] == -1 ? std::string("none") : std::to_string(graph.blocks[i]);
  });
  out += "inputs\n";
  for (const Input& input : graph.inputs) out += "  " + input_text(graph, input) + "\n";
  out += "nodes\n";
  Phase phase = Phase::forward;
  for (const Node& node : graph.nodes) {
    if (node.phase != phase) {
      phase = node.phase;
      out += fmt::format("{}\n", text::word(text::kPhases, phase));
    }
    std::string line = "  " + node_text(graph, node);
    if (node.id != -1) {
      line.resize(std::max(line.size() + 1, kNodeIdColumn), ' ');
      line += fmt::format("# {}", node.id);
    }
    out += line + "\n";
  }
  out += "outputs\n";
  for (const Output& output : graph.outputs) out += "  " + output_text(output) + "\n";
  return out;
}

std::string to_text(const GraphFile& file) {
  return file.record.empty() ? to_text(file.graph)
                             : to_text(file.graph) + "record\n" + file.record + "\n";
}

}  // namespace antegrad
