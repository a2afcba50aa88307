#pragma once

/// \file
/// Ids of values and storages, and vectors indexed by them. Positions in lists are plain integers.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace antegrad {

/// The number of an item of one kind; -1 for none. Ids of different kinds only convert into each
/// other explicitly. Integers do not convert, except literals.
template <class Kind>
class Id {
 public:
  constexpr Id() = default;
  consteval Id(int literal) : number_(literal) {}
  constexpr explicit Id(size_t index) : number_(static_cast<int32_t>(index)) {}
  template <class Other>
  constexpr explicit Id(Id<Other> other) : number_(other.number()) {}
  static constexpr Id from(int32_t number) {
    Id id;
    id.number_ = number;
    return id;
  }

  constexpr int32_t number() const { return number_; }
  /// The id as an index. It must be valid.
  constexpr size_t index() const { return static_cast<size_t>(number_); }
  constexpr bool valid() const { return number_ >= 0; }
  constexpr Id& operator++() { return *this = from(number_ + 1); }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  int32_t number_ = -1;
};

using ValueId = Id<struct OfValue>;
/// Memory that values share. Its number is that of the value that owns it.
using StorageId = Id<struct OfStorage>;
inline constexpr ValueId kNoValue;

template <class Kind>
std::string to_string(Id<Kind> id) {
  return std::to_string(id.number());
}
template <class Kind>
std::ostream& operator<<(std::ostream& out, Id<Kind> id) {
  return out << id.number();
}
/// Conversion for nlohmann::json.
template <class Json, class Kind>
void to_json(Json& json, Id<Kind> id) {
  json = id.number();
}
template <class Json, class Kind>
void from_json(const Json& json, Id<Kind>& id) {
  id = Id<Kind>::from(json.template get<int32_t>());
}

/// A vector with one entry per id.
template <class Id, class T>
class IdMap : public std::vector<T> {
  using Entries = std::vector<T>;

 public:
  using Entries::Entries;
  typename Entries::reference operator[](Id id) { return Entries::operator[](id.index()); }
  typename Entries::const_reference operator[](Id id) const {
    return Entries::operator[](id.index());
  }
  bool contains(Id id) const { return id.valid() && id.index() < this->size(); }
  /// Appends an entry and returns its id.
  Id add(T entry) {
    this->push_back(std::move(entry));
    return Id(this->size() - 1);
  }

  struct Iterator {
    Id id;
    Id operator*() const { return id; }
    Iterator& operator++() { return ++id, *this; }
    bool operator==(const Iterator&) const = default;
  };
  struct Ids {
    Iterator first, last;
    Iterator begin() const { return first; }
    Iterator end() const { return last; }
  };
  /// All ids in ascending order, for loops. Excludes entries added by the loop.
  Ids ids() const { return {{0}, {Id(this->size())}}; }
};

}  // namespace antegrad

template <class Kind>
struct std::hash<antegrad::Id<Kind>> {
  size_t operator()(antegrad::Id<Kind> id) const { return std::hash<int32_t>()(id.number()); }
};

template <class Kind>
struct fmt::formatter<antegrad::Id<Kind>> : fmt::formatter<int32_t> {
  auto format(antegrad::Id<Kind> id, format_context& context) const {
    return fmt::formatter<int32_t>::format(id.number(), context);
  }
};
