#pragma once

/// \file
/// A member of Options, or of a struct in it, as an OptionValue.

#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <antegrad/options.h>

#include "options/value.h"
#include "options/words.h"

namespace antegrad {

struct Member {
  Domain domain;
  OptionValue (*get)(const Options& options);
  void (*set)(Options& options, const OptionValue& value);  ///< a value that the domain admits
};

namespace detail {

template <class T>
concept Enumerator = std::is_enum_v<T>;
template <class T>
concept Integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <class T>
struct Stored {  // bool, double, std::string
  static OptionValue get(const T& member) { return member; }
  static void set(T& member, const OptionValue& value) { member = std::get<T>(value); }
};

template <Integer T>
struct Stored<T> {
  static OptionValue get(T member) { return static_cast<int64_t>(member); }
  static void set(T& member, const OptionValue& value) {
    member = static_cast<T>(std::get<int64_t>(value));
  }
};

template <Enumerator T>
struct Stored<T> {
  static OptionValue get(T member) { return std::string(word_of(member)); }
  static void set(T& member, const OptionValue& value) {
    member = *from_word<T>(std::get<std::string>(value));
  }
};

template <class T>
struct Stored<std::optional<T>> {
  static OptionValue get(const std::optional<T>& member) {
    return member ? Stored<T>::get(*member) : OptionValue();
  }
  static void set(std::optional<T>& member, const OptionValue& value) {
    member.reset();
    if (!std::holds_alternative<std::monostate>(value)) Stored<T>::set(member.emplace(), value);
  }
};

template <Enumerator T>
struct Stored<std::vector<T>> {
  static OptionValue get(const std::vector<T>& member) {
    if (member.empty()) return {};
    std::vector<std::string> words;
    for (const T value : member) words.emplace_back(word_of(value));
    return words;
  }
  static void set(std::vector<T>& member, const OptionValue& value) {
    member.clear();
    if (std::holds_alternative<std::monostate>(value)) return;
    for (const std::string& word : std::get<std::vector<std::string>>(value)) {
      member.push_back(*from_word<T>(word));
    }
  }
};

template <class T>
constexpr bool kIsListOfWords = false;
template <Enumerator T>
inline constexpr bool kIsListOfWords<std::vector<T>> = true;

template <class T>
constexpr Domain domain_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return {.kind = OptionKind::boolean};
  } else if constexpr (Integer<T>) {
    return {.kind = OptionKind::integer, .least = 0, .most = std::numeric_limits<T>::max()};
  } else if constexpr (std::is_same_v<T, double>) {
    return {.kind = OptionKind::ratio};
  } else if constexpr (Enumerator<T>) {
    return {.kind = OptionKind::word, .words = kWords<T>};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {.kind = OptionKind::string};
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return {.kind = OptionKind::operators};
  } else if constexpr (kIsListOfWords<T>) {
    return {
        .kind = OptionKind::words, .may_be_unset = true, .words = kWords<typename T::value_type>};
  } else {
    Domain domain = domain_of<typename T::value_type>();
    domain.may_be_unset = true;
    return domain;
  }
}

/// options.*first.*second
template <auto... Path, class AnyOptions>
constexpr auto& at_path(AnyOptions& options) {
  // clang-format off
  return (options .* ... .* Path);
  // clang-format on
}

}  // namespace detail

/// member<&Options::min_cut, &MinCutOptions::recompute_views>(). Integers are not negative.
template <auto... Path>
constexpr Member member() {
  using T = std::remove_reference_t<decltype(detail::at_path<Path...>(std::declval<Options&>()))>;
  using Stored = detail::Stored<T>;
  return {detail::domain_of<T>(),
          [](const Options& options) { return Stored::get(detail::at_path<Path...>(options)); },
          [](Options& options, const OptionValue& value) {
            Stored::set(detail::at_path<Path...>(options), value);
          }};
}

}  // namespace antegrad
