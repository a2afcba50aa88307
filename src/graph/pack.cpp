#include "graph/pack.h"

#include <antegrad/error.h>

#include <bit>
#include <concepts>
#include <cstring>
#include <functional>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "graph/hash_bits.h"
#include "graph/members.h"

namespace antegrad {
namespace {

// Both directions of the packed form. The functions pass() below describe once what a graph
// consists of; they write each member with a Writer and read it with a Reader. Numbers take seven
// bits per byte. Repeated items (strings, metadata of tensors) are written as the number of their
// first occurrence.

class Writer {
 public:
  static constexpr bool kReads = false;

  void number(uint64_t& n) {
    if (n < 0x80) return bytes.push_back(static_cast<char>(n));
    char digits[10];
    size_t count = 0;
    auto rest = n;
    for (; rest >= 0x80; rest >>= 7) digits[count++] = static_cast<char>(rest | 0x80);
    digits[count++] = static_cast<char>(rest);
    bytes.append(digits, count);
  }
  void characters(std::string& text) { bytes += text; }
  void op(Op& op) {
    const auto [it, added] = op_numbers_.try_emplace(op, ops.size());
    if (added) ops.push_back(op);
    number(it->second);
  }
  template <class T, class Content>
  void once(T& value, std::vector<T>& /*known*/, const Content& content) {
    const auto [it, added] = seen(value).try_emplace(&value, seen(value).size());
    auto index = it->second;
    number(index);
    if (added) content(*this, value);
  }

  std::string bytes;
  std::vector<Op> ops;
  std::vector<std::string> strings;
  std::vector<TensorMeta> metas;

 private:
  struct OpHash {
    size_t operator()(Op op) const { return op.hash(); }
  };
  std::unordered_map<Op, uint64_t, OpHash> op_numbers_;
  // The numbers of items that were written, which are held by the graph.
  struct Hash {
    size_t operator()(const std::string* text) const { return std::hash<std::string>()(*text); }
    size_t operator()(const TensorMeta* meta) const {
      auto hash = mix_bits(static_cast<uint64_t>(meta->dtype), meta->sizes.size());
      for (const auto* numbers : {&meta->sizes, &meta->strides}) {
        for (const IntExpr& number : *numbers) hash = mix_bits(hash, hash_value(number));
      }
      return hash;
    }
  };
  struct Equal {
    bool operator()(const auto* a, const auto* b) const { return *a == *b; }
  };
  template <class T>
  using Numbers = std::unordered_map<const T*, uint64_t, Hash, Equal>;
  auto& seen(const std::string& /*kind*/) { return seen_strings_; }
  auto& seen(const TensorMeta& /*kind*/) { return seen_metas_; }
  Numbers<std::string> seen_strings_;
  Numbers<TensorMeta> seen_metas_;
};

class Reader {
 public:
  static constexpr bool kReads = true;

  Reader(const std::string& bytes, const std::vector<Op>& ops) : bytes_(bytes), ops_(ops) {}

  void number(uint64_t& n) {
    n = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      n |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return;
    }
  }
  void characters(std::string& text) {
    std::memcpy(text.data(), bytes_.data() + at_, text.size());
    at_ += text.size();
  }
  void op(Op& op) {
    uint64_t index = 0;
    number(index);
    op = ops_[index];
  }
  template <class T, class Content>
  void once(T& value, std::vector<T>& known, const Content& content) {
    uint64_t index = 0;
    number(index);
    if (index == known.size()) content(*this, known.emplace_back());
    value = known[index];
  }
  bool at_end() const { return at_ == bytes_.size(); }

  std::vector<std::string> strings;
  std::vector<TensorMeta> metas;

 private:
  const std::string& bytes_;
  const std::vector<Op>& ops_;
  size_t at_ = 0;
};

// Maps small numbers of either sign to small unsigned numbers.
template <class Io, class T>
requires std::integral<T> || std::is_enum_v<T>
void pass(Io& io, T& value) {
  const auto wide = static_cast<int64_t>(value);
  auto n = (static_cast<uint64_t>(wide) << 1) ^ static_cast<uint64_t>(wide >> 63);
  io.number(n);
  if constexpr (Io::kReads) value = static_cast<T>(static_cast<int64_t>((n >> 1) ^ (0 - (n & 1))));
}

// Relative to a number that is likely close.
template <class Io>
void pass_near(Io& io, int32_t& value, int32_t reference) {
  auto distance = static_cast<int64_t>(value) - reference;
  pass(io, distance);
  if constexpr (Io::kReads) value = static_cast<int32_t>(reference + distance);
}
template <class Io, class Kind>
void pass_near(Io& io, Id<Kind>& id, int32_t reference) {
  int32_t number = id.number();
  pass_near(io, number, reference);
  if constexpr (Io::kReads) id = Id<Kind>::from(number);
}
template <class Io, class Kind>
void pass(Io& io, Id<Kind>& id) {
  pass_near(io, id, 0);
}

template <class Io>
void pass(Io& io, double& value) {
  auto bits = std::rotl(std::bit_cast<uint64_t>(value), 12);  // round numbers end in zeros
  io.number(bits);
  if constexpr (Io::kReads) value = std::bit_cast<double>(std::rotr(bits, 12));
}

template <class Io>
void pass(Io& io, std::complex<double>& value) {
  double real = value.real(), imag = value.imag();
  pass(io, real);
  pass(io, imag);
  if constexpr (Io::kReads) value = {real, imag};
}

template <class Io>
void pass_text(Io& io, std::string& text) {
  uint64_t size = text.size();
  io.number(size);
  text.resize(size);
  io.characters(text);
}

template <class Io>
void pass(Io& io, std::string& text) {
  io.once(text, io.strings, [](auto& inner, std::string& content) { pass_text(inner, content); });
}

template <class Io>
void pass(Io& io, IntExpr& expr) {
  constexpr int64_t kExpression = INT64_MAX;  // the text of an expression follows
  auto value = expr.maybe_constant().value_or(kExpression);
  pass(io, value);
  auto text = Io::kReads || value != kExpression ? std::string() : to_string(expr);
  if (value == kExpression) pass_text(io, text);
  if constexpr (Io::kReads) {
    std::string_view rest = text;
    expr = value == kExpression ? parse_int_expr(rest) : IntExpr(value);
  }
}

// A variant: the index of its alternative, then the value.
template <class Io, class... T>
void pass(Io& io, std::variant<T...>& value) {
  auto index = value.index();
  pass(io, index);
  if constexpr (Io::kReads) {
    size_t next = 0;
    static_cast<void>(((next++ == index && (value.template emplace<T>(), true)) || ...));
  }
  std::visit([&](auto& held) { pass(io, held); }, value);
}

template <class Io, Record T>
void pass(Io& io, T& record) {
  each_member(record, [&](auto& member) { pass(io, member); });
}

template <class Io, class T, class Each>
void pass_list(Io& io, std::vector<T>& list, const Each& each) {
  uint64_t size = list.size();
  io.number(size);
  list.resize(size);
  for (uint64_t i = 0; i < size; ++i) each(list[i], static_cast<int32_t>(i));
}
template <class Io, class T>
void pass(Io& io, std::vector<T>& list) {
  pass_list(io, list, [&](T& item, int32_t /*i*/) { pass(io, item); });
}
template <class Io>
void pass(Io& io, std::vector<bool>& list) {
  uint64_t size = list.size();
  io.number(size);
  list.resize(size);
  for (size_t i = 0; i < size; ++i) {
    bool value = list[i];
    pass(io, value);
    if constexpr (Io::kReads) list[i] = value;
  }
}
template <class Io>
void pass(Io& io, TensorMeta& meta) {
  io.once(meta, io.metas, [](auto& inner, TensorMeta& content) {
    each_member(content, [&](auto& member) { pass(inner, member); });
  });
}

// Most values own their storage.
template <class Io>
void pass(Io& io, Value& value, int32_t id) {
  pass(io, value.kind);
  pass_near(io, value.storage, id);
  pass_near(io, value.alias_class, value.storage.number());
  pass(io, value.meta);
}

// `newest` is the last value returned by a node so far: inputs are close to it, and outputs follow
// it.
template <class Io>
void pass(Io& io, Node& node, int32_t position, ValueId& newest) {
  io.op(node.op);
  pass_list(io, node.inputs,
            [&](ValueId& value, int32_t /*i*/) { pass_near(io, value, newest.number()); });
  pass(io, node.args);
  pass_list(io, node.outputs, [&](ValueId& value, int32_t /*i*/) {
    pass_near(io, value, newest.number() + 1);
    if (value != kNoValue) newest = value;
  });
  pass(io, node.tokens);
  pass(io, node.phase);
  pass_near(io, node.id, position);
  pass(io, node.block);
  pass(io, node.recompute);
}

template <class Io>
void pass(Io& io, Graph& graph) {
  pass(io, graph.name);
  for (auto* names : {&graph.symbols, &graph.generators, &graph.opaque_names}) pass(io, *names);
  pass(io, graph.blocks);
  pass_list(io, graph.values, [&](Value& value, int32_t id) { pass(io, value, id); });
  pass(io, graph.inputs);
  ValueId newest = kNoValue;
  pass_list(io, graph.nodes,
            [&](Node& node, int32_t position) { pass(io, node, position, newest); });
  pass(io, graph.outputs);
}

}  // namespace

PackedGraph::PackedGraph(const Graph& graph) {
  Writer writer;
  pass(writer, const_cast<Graph&>(graph));  // NOLINT: only a Reader changes it
  bytes_ = std::move(writer.bytes);
  bytes_.shrink_to_fit();
  ops_ = std::move(writer.ops);
  ops_.shrink_to_fit();
}

Graph PackedGraph::unpack() const {
  Graph graph;
  Reader reader(bytes_, ops_);
  pass(reader, graph);
  AG_CHECK(reader.at_end(), "a packed graph ends where its graph does");
  return graph;
}

Hash128 PackedGraph::hash() const {
  std::string text = bytes_;
  for (const Op op : ops_) (text += '\0') += op.name();
  return hash_of_bytes(text);
}

}  // namespace antegrad
