#pragma once

/// \file
/// Walks two records, or two graphs, in lockstep: everything in them has to be equal, except that
/// the caller decides about integers (IntExpr). Comparisons and the unification of graphs that
/// differ in sizes (unify.h) are such walks.

#include <algorithm>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "graph/members.h"

namespace antegrad {

/// Whether two values are equal: numbers, texts, ids, and whatever is made of those. Floats compare
/// by bits. Pairs of integers go to `same_integer(a, b)`, in the order of the members, up to the
/// first difference. It may write to `a` if that is not const.
template <class T, class SameInteger>
bool in_step(T& a, const std::type_identity_t<T>& b, SameInteger& same_integer) {
  using Plain = std::remove_const_t<T>;
  const auto each = [&same_integer](auto& x, const auto& y) { return in_step(x, y, same_integer); };
  if constexpr (std::is_same_v<Plain, IntExpr>) {
    return same_integer(a, b);
  } else if constexpr (std::is_same_v<Plain, double>) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  } else if constexpr (std::is_same_v<Plain, std::complex<double>>) {
    const double x[] = {a.real(), a.imag()};
    const double y[] = {b.real(), b.imag()};
    return each(x[0], y[0]) && each(x[1], y[1]);
  } else if constexpr (Record<Plain>) {
    return std::apply([&](auto... member) { return (each(a.*member, b.*member) && ...); },
                      members_of(&a));
  } else if constexpr (requires { std::variant_size<Plain>::value; }) {
    return a.index() == b.index() &&
           std::visit(
               [&](auto& held) { return each(held, std::get<std::decay_t<decltype(held)>>(b)); },
               a);
  } else if constexpr (requires { typename Plain::allocator_type; } &&
                       !std::is_same_v<Plain, std::string> &&
                       !std::is_same_v<Plain, std::vector<bool>>) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), each);
  } else {
    return a == b;
  }
}

/// A place in a graph: an entry of one of its lists, or for `header` one of the members before
/// these.
struct Place {
  enum class List : uint8_t { header, inputs, nodes, outputs };
  List list = List::header;
  int32_t entry = 0;
  int32_t value = -1;    ///< which of the values that the entry defines; -1 for its record
  int32_t integer = -1;  ///< number of the integer in that value's metadata or in the record
};

/// "node 12, aten::view.default: entry 1 of argument 1", for a place with an integer.
std::string integer_text(const Graph& graph, const Place& place);
/// The difference of two graphs at a place: "node 12: ... and ..."
std::string difference_text(const Graph& a, const Graph& b, const Place& place);

/// A walk over two graphs. Compares names, generators, objects, blocks, the records of inputs,
/// nodes and outputs, and the values that inputs and nodes define. Does not compare symbols and
/// values that nothing defines.
template <class SameInteger>
class Lockstep {
 public:
  /// `same_integer(a, b, place)` decides about two integers.
  explicit Lockstep(SameInteger same_integer) : same_integer_(std::move(same_integer)) {}

  /// Whether everything is equal. `a` may be const.
  template <class G>
  bool graphs(G& a, const Graph& b) {
    place_ = {};
    return header(a.name, b.name) && header(a.generators, b.generators) &&
           header(a.opaque_names, b.opaque_names) && header(a.blocks, b.blocks) &&
           list(Place::List::inputs, a.inputs, b.inputs,
                [&](const Input& input) { return value(a, b, input.value, 0); }) &&
           list(Place::List::nodes, a.nodes, b.nodes,
                [&](const Node& node) {
                  for (size_t i = 0; i < node.outputs.size(); ++i) {
                    if (!value(a, b, node.outputs[i], static_cast<int32_t>(i))) return false;
                  }
                  return true;
                }) &&
           list(Place::List::outputs, a.outputs, b.outputs, [](const Output&) { return true; });
  }

  /// Of the first difference, once graphs() returned false.
  const Place& place() const { return place_; }
  SameInteger& same_integer() { return same_integer_; }

 private:
  bool header(const auto& a, const auto& b) {
    if (a != b) return false;
    ++place_.entry;
    return true;
  }

  template <class Entries, class Values>
  bool list(Place::List which, Entries& a, const std::type_identity_t<Entries>& b, Values values) {
    const size_t common = std::min(a.size(), b.size());
    for (size_t i = 0; i < common; ++i) {
      place_ = {which, static_cast<int32_t>(i)};
      if (!step(a[i], b[i]) || !values(a[i])) return false;
    }
    place_ = {which, static_cast<int32_t>(common)};
    return a.size() == b.size();
  }

  template <class G>
  bool value(G& a, const Graph& b, ValueId id, int32_t number) {
    if (id == kNoValue) return true;
    if (!a.values.contains(id) || !b.values.contains(id)) {
      return !a.values.contains(id) && !b.values.contains(id);
    }
    auto& x = a.value(id);
    const Value& y = b.value(id);
    place_.value = number;
    place_.integer = -1;
    return x.kind == y.kind && x.storage == y.storage && x.alias_class == y.alias_class &&
           (x.kind != ValueKind::tensor || step(x.meta, y.meta));
  }

  template <class T>
  bool step(T& a, const std::type_identity_t<T>& b) {
    const auto integer = [this](auto& x, const IntExpr& y) {
      ++place_.integer;
      return same_integer_(x, y, place_);
    };
    return in_step(a, b, integer);
  }

  SameInteger same_integer_;
  Place place_;
};

}  // namespace antegrad
