#pragma once

/// \file
/// Values of options in one form that text, JSON and Python share, and the values that an option
/// can have.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace antegrad {

/// The value of an option, or nothing if it is optional and unset. The value of an enum is its
/// word.
using OptionValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>>;

enum class OptionKind : uint8_t {
  boolean,
  integer,  ///< Domain::least to Domain::most
  ratio,    ///< a number from 0 to 1
  word,     ///< one of Domain::words
  words,    ///< some of Domain::words, each once
  string,
  path,
  bytes,      ///< a number above 0; as text also with a unit, "512MiB"
  operators,  ///< base names such as aten::add
};

/// The values that an option can have.
struct Domain {
  OptionKind kind = OptionKind::boolean;
  bool may_be_unset = false;
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  std::span<const std::string_view> words = {};
};

/// "integer from 1", "off, pow2, every": for tables.
std::string type_text(const Domain& domain);

/// "an integer from 1", "one of off, pow2, every": for errors.
std::string expected_text(const Domain& domain);

/// The value as the option stores it, or nothing if the option cannot have it. A string is parsed:
/// "true" as a boolean, "8" as an integer, "none" as unset.
std::optional<OptionValue> admitted(const Domain& domain, const OptionValue& value);

/// The text that admitted() reads back.
std::string text_of(const OptionValue& value);

}  // namespace antegrad
