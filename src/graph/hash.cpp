#include "graph/hash.h"

#include <cstring>
#include <type_traits>
#include <unordered_map>

#include <fmt/format.h>
#include <xxhash.h>

#include "graph/members.h"

namespace antegrad {
namespace {

/// Writes the graph as bytes to hash. Each item has a fixed length or is preceded by its length, so
/// that different graphs give different bytes.
class Serialiser {
 public:
  void graph(const Graph& graph) {
    (*this)(graph.symbols);
    (*this)(graph.generators);
    (*this)(graph.opaque_names);
    (*this)(graph.blocks);
    number(graph.inputs.size());
    for (const Input& input : graph.inputs) {
      value(graph, input.value);
      numbers(input.kind, input.index);
      (*this)(input.source);
      number(input.version_bumps);
      number(input.requires_grad | input.mutates_data << 1 | input.mutates_metadata << 2 |
             input.inner << 3);
    }
    number(graph.nodes.size());
    for (const Node& node : graph.nodes) {
      (*this)(node.op.name());
      numbers(node.phase, node.block, node.recompute, node.tokens, node.args.size());
      for (const Attr& arg : node.args) (*this)(arg.value);
      number(node.inputs.size());
      for (const ValueId input : node.inputs) value(graph, input);
      number(node.outputs.size());
      for (const ValueId output : node.outputs) value(graph, output);
    }
    number(graph.outputs.size());
    for (const Output& output : graph.outputs) {
      value(graph, output.value);
      numbers(output.kind, output.index);
      (*this)(output.alias);
      number(output.requires_grad | output.leaf << 1 | output.inner << 2 |
             static_cast<int>(output.own_view) << 3);
      number(output.version);
    }
  }

  Hash128 digest() const {
    const XXH128_hash_t hash = XXH3_128bits(bytes_.data(), bytes_.size());
    return {hash.high64, hash.low64};
  }

  void operator()(double value) { raw(value); }
  void operator()(bool value) { raw(static_cast<char>(value)); }
  void operator()(const std::complex<double>& value) { raw(value); }
  void operator()(const std::string& text) {
    number(text.size());
    bytes_.append(text);
  }
  template <class Number>
  requires std::is_enum_v<Number> || std::is_integral_v<Number>
  void operator()(Number value) { number(value); }
  template <class... T>
  void operator()(const std::variant<T...>& value) {
    number(value.index());
    std::visit([this](const auto& content) { (*this)(content); }, value);
  }
  template <class T>
  void operator()(const std::vector<T>& entries) {
    number(entries.size());
    for (const auto& entry : entries) (*this)(static_cast<const T&>(entry));
  }
  void operator()(const Record auto& record) { each_member(record, *this); }
  void operator()(const IntExpr& expr) {
    number(expr.kind());
    if (expr.is_constant()) {
      raw(expr.constant());
    } else if (expr.kind() == IntExpr::Kind::symbol) {
      number(expr.symbol_id());
    } else {
      (*this)(expr.operands());
    }
  }

 private:
  template <class T>
  void raw(const T& value) {
    char buffer[sizeof(T)];
    std::memcpy(buffer, &value, sizeof(T));
    bytes_.append(buffer, sizeof(T));
  }
  template <class T>
  void number(T value) {
    raw(static_cast<int64_t>(value));
  }
  void numbers(auto... values) { (number(values), ...); }

  /// Numbers by first occurrence.
  using Numbering = std::unordered_map<int32_t, int32_t>;
  static int32_t renumbered(Numbering& numbers, int32_t id) {
    return numbers.emplace(id, static_cast<int32_t>(numbers.size())).first->second;
  }

  void value(const Graph& graph, ValueId id) {
    if (id == kNoValue) return number(-1);
    const auto [entry, first] = values_.emplace(id.number(), static_cast<int32_t>(values_.size()));
    number(entry->second);
    if (!first) return;
    const Value& described = graph.value(id);
    number(described.kind);
    number(renumbered(storages_, described.storage.number()));
    number(renumbered(classes_, described.alias_class.number()));
    if (described.kind != ValueKind::tensor) return;
    (*this)(described.meta);
  }

  std::string bytes_;
  Numbering values_;
  Numbering storages_;
  Numbering classes_;
};

}  // namespace

Hash128 structural_hash(const Graph& graph) {
  Serialiser serialiser;
  serialiser.graph(graph);
  return serialiser.digest();
}

std::string to_string(Hash128 hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

}  // namespace antegrad
