#include "graph/hash.h"

#include <array>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#define XXH_INLINE_ALL  // its library is not linked
#include <xxhash.h>

#include "graph/members.h"

namespace antegrad {
namespace {

/// Feeds the graph to the hash as bytes. Each item has a fixed length or is preceded by its length,
/// so that different graphs give different bytes.
class Serialiser {
 public:
  Serialiser() { XXH3_128bits_reset(state_.get()); }
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
             input.inner << 3 | static_cast<int>(input.storage) << 4);
      if (input.storage == InputStorage::allocates) (*this)(input.storage_bytes);
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
             static_cast<int>(output.own_view) << 3 | output.update << 5);
      number(output.version);
    }
  }

  Hash128 digest() {
    flush();
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.high64, hash.low64};
  }

  void operator()(double value) { raw(value); }
  void operator()(bool value) { raw(static_cast<char>(value)); }
  void operator()(const std::complex<double>& value) { raw(value); }
  void operator()(const std::string& text) {
    number(text.size());
    append(text.data(), text.size());
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
  void raw(const auto& value) { append(&value, sizeof value); }
  void append(const void* bytes, size_t size) {
    if (size_ + size > bytes_.size()) flush();
    if (size > bytes_.size()) return update(bytes, size);
    std::memcpy(bytes_.data() + size_, bytes, size);
    size_ += size;
  }
  void update(const void* bytes, size_t size) { XXH3_128bits_update(state_.get(), bytes, size); }
  void flush() { update(bytes_.data(), std::exchange(size_, 0)); }
  template <class T>
  void number(T value) {
    raw(static_cast<int64_t>(value));
  }
  void numbers(auto... values) { (number(values), ...); }

  /// Numbers ids, "none" included, by first occurrence.
  class Numbering {
   public:
    /// The number of an id, and whether it is new.
    std::pair<int32_t, bool> of(auto id) {
      const auto place = static_cast<size_t>(id.number()) + 1;
      if (place >= numbers_.size()) numbers_.resize(place + 1, -1);
      const bool is_new = numbers_[place] < 0;
      if (is_new) numbers_[place] = next_++;
      return {numbers_[place], is_new};
    }

   private:
    std::vector<int32_t> numbers_;
    int32_t next_ = 0;
  };

  void value(const Graph& graph, ValueId id) {
    if (id == kNoValue) return number(-1);
    const auto [position, is_new] = values_.of(id);
    number(position);
    if (!is_new) return;
    const Value& described = graph.value(id);
    number(described.kind);
    number(storages_.of(described.storage).first);
    number(classes_.of(described.alias_class).first);
    if (described.kind != ValueKind::tensor) return;
    (*this)(described.meta);
  }

  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  const std::unique_ptr<XXH3_state_t, FreeState> state_{XXH3_createState()};
  std::array<char, 4096> bytes_;  // not yet in `state_`
  size_t size_ = 0;
  Numbering values_, storages_, classes_;
};

}  // namespace

Hash128 structural_hash(const Graph& graph) {
  Serialiser serialiser;
  serialiser.graph(graph);
  return serialiser.digest();
}

Hash128 hash_of_bytes(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string to_string(Hash128 hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

}  // namespace antegrad
