#pragma once

/// \file
/// Structures of tensors as arguments and results of compiled callables.
///
/// A structure is flattened into tensors, which are inputs or outputs of the captured graph, and
/// host values (numbers, strings, lengths, keys), which are constants of a program: a call with
/// other host values is captured again. Supported: at::Tensor, arithmetic types, enums,
/// std::string, optional, vector, array, pair, tuple, map, unordered_map, and any nesting of
/// these. For your own struct:
///
///     struct Batch { at::Tensor x, y; int64_t count; };
///     template <> struct antegrad::tree<Batch> : antegrad::tree_of_members<&Batch::x, &Batch::y,
///                                                                          &Batch::count> {};

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace antegrad {

using HostValue = std::variant<bool, int64_t, uint64_t, double, std::string>;

/// A flattened structure, leaves in order. A value.
struct Leaves {
  std::vector<at::Tensor> tensors;
  std::vector<HostValue> host;
};

/// Reads leaves in the order in which they were written. Not thread-safe.
class LeafReader {
 public:
  explicit LeafReader(const Leaves& leaves) : leaves_(leaves) {}
  const at::Tensor& tensor() { return leaves_.tensors.at(next_tensor_++); }
  template <class T>
  const T& host() {
    return std::get<T>(leaves_.host.at(next_host_++));
  }

 private:
  const Leaves& leaves_;
  size_t next_tensor_ = 0;
  size_t next_host_ = 0;
};

/// How a type is flattened and rebuilt. Specialise it for your own types with two static
/// functions: `void flatten(const T&, Leaves&)` and `T unflatten(LeafReader&)`. They run on the
/// calling thread, concurrently if calls are concurrent.
template <class T, class = void>
struct tree {
  using not_covered = T;
  template <class U>
  static void flatten(const U&, Leaves&) {
    fail<U>();
  }
  template <class Reader>
  static T unflatten(Reader&) {
    fail<Reader>();
  }

 private:
  template <class U>
  static void fail() {
    static_assert(
        !std::is_same_v<U, U>,
        "antegrad: this type is not a tensor, a number, a string or a container of those; "
        "specialise antegrad::tree for it (see antegrad/tree.h)");
  }
};

/// Whether the type itself is supported. A container may hold one that is not.
template <class T>
inline constexpr bool has_tree = !requires {
  typename tree<T>::not_covered;
};

template <>
struct tree<at::Tensor> {
  static void flatten(const at::Tensor& t, Leaves& leaves) { leaves.tensors.push_back(t); }
  static at::Tensor unflatten(LeafReader& reader) { return reader.tensor(); }
};

template <class T>
struct tree<T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>> {
  /// The alternative of HostValue that holds T without loss.
  using Held = std::conditional_t<
      std::is_same_v<T, bool>, bool,
      std::conditional_t<std::is_floating_point_v<T>, double,
                         std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>>;
  static void flatten(T value, Leaves& leaves) {
    leaves.host.emplace_back(static_cast<Held>(value));
  }
  static T unflatten(LeafReader& reader) { return static_cast<T>(reader.host<Held>()); }
};

template <>
struct tree<std::string> {
  static void flatten(const std::string& s, Leaves& leaves) { leaves.host.emplace_back(s); }
  static std::string unflatten(LeafReader& reader) { return reader.host<std::string>(); }
};

template <class T>
struct tree<std::optional<T>> {
  static void flatten(const std::optional<T>& value, Leaves& leaves) {
    leaves.host.emplace_back(value.has_value());
    if (value) tree<T>::flatten(*value, leaves);
  }
  static std::optional<T> unflatten(LeafReader& reader) {
    if (!reader.host<bool>()) return std::nullopt;
    return tree<T>::unflatten(reader);
  }
};

template <class T, class A>
struct tree<std::vector<T, A>> {
  static void flatten(const std::vector<T, A>& values, Leaves& leaves) {
    leaves.host.emplace_back(static_cast<uint64_t>(values.size()));
    for (const auto& value : values) tree<T>::flatten(value, leaves);
  }
  static std::vector<T, A> unflatten(LeafReader& reader) {
    std::vector<T, A> values;
    const auto size = reader.host<uint64_t>();
    values.reserve(size);
    for (uint64_t i = 0; i < size; ++i) values.push_back(tree<T>::unflatten(reader));
    return values;
  }
};

template <class... T>
struct tree<std::tuple<T...>> {
  static void flatten(const std::tuple<T...>& values, Leaves& leaves) {
    std::apply([&](const T&... value) { (tree<T>::flatten(value, leaves), ...); }, values);
  }
  static std::tuple<T...> unflatten([[maybe_unused]] LeafReader& reader) {
    return std::tuple<T...>{tree<T>::unflatten(reader)...};  // braces: left to right
  }
};

template <class A, class B>
struct tree<std::pair<A, B>> {
  static void flatten(const std::pair<A, B>& value, Leaves& leaves) {
    tree<A>::flatten(value.first, leaves);
    tree<B>::flatten(value.second, leaves);
  }
  static std::pair<A, B> unflatten(LeafReader& reader) {
    return std::pair<A, B>{tree<A>::unflatten(reader), tree<B>::unflatten(reader)};
  }
};

template <class T, size_t N>
struct tree<std::array<T, N>> {
  static void flatten(const std::array<T, N>& values, Leaves& leaves) {
    for (const auto& value : values) tree<T>::flatten(value, leaves);
  }
  static std::array<T, N> unflatten(LeafReader& reader) {
    std::array<T, N> values{};
    for (auto& value : values) value = tree<T>::unflatten(reader);
    return values;
  }
};

namespace detail {
/// std::map and std::unordered_map: keys are separate leaves, in iteration order.
template <class Map>
struct map_tree {
  using Key = typename Map::key_type;
  using Mapped = typename Map::mapped_type;
  static void flatten(const Map& values, Leaves& leaves) {
    leaves.host.emplace_back(static_cast<uint64_t>(values.size()));
    for (const auto& [key, value] : values) {
      tree<Key>::flatten(key, leaves);
      tree<Mapped>::flatten(value, leaves);
    }
  }
  static Map unflatten(LeafReader& reader) {
    Map values;
    for (auto left = reader.host<uint64_t>(); left > 0; --left) {
      auto key = tree<Key>::unflatten(reader);
      values.emplace(std::move(key), tree<Mapped>::unflatten(reader));
    }
    return values;
  }
};
}  // namespace detail

template <class K, class V, class C, class A>
struct tree<std::map<K, V, C, A>> : detail::map_tree<std::map<K, V, C, A>> {};
template <class K, class V, class H, class E, class A>
struct tree<std::unordered_map<K, V, H, E, A>>
    : detail::map_tree<std::unordered_map<K, V, H, E, A>> {};

/// A struct by its data members; see the file comment. The struct must be default-constructible.
template <auto... Members>
struct tree_of_members {
 private:
  template <class C, class M>
  static C class_of(M C::*);
  template <class C, class M>
  static M member_of(M C::*);
  using Struct = std::tuple_element_t<0, std::tuple<decltype(class_of(Members))...>>;

 public:
  static void flatten(const Struct& value, Leaves& leaves) {
    (tree<decltype(member_of(Members))>::flatten(value.*Members, leaves), ...);
  }
  static Struct unflatten(LeafReader& reader) {
    Struct value{};
    ((value.*Members = tree<decltype(member_of(Members))>::unflatten(reader)), ...);
    return value;
  }
};

}  // namespace antegrad
