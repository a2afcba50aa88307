#pragma once

/// \file
/// Values of options in the one form that text, JSON and Python have in common, and what values an option can have.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace antegrad {

/// Nothing, where an option need not be set, or its value; of an enum its word.
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

/// What values an option can have.
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

/// The value as the option holds it, or nothing when it can have no such value. A string is read as text: "true" is a
/// boolean then, "8" an integer, "none" what is not set.
std::optional<OptionValue> admitted(const Domain& domain, const OptionValue& value);

/// The text that admitted() reads back.
std::string text_of(const OptionValue& value);

}  // namespace antegrad
