#include "options/value.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/byte_text.h"

namespace antegrad {
namespace {

constexpr std::string_view kUnset = "none";

/// {}: the least integer, or the words.
struct KindTexts {
  std::string_view type, expected;
};
constexpr KindTexts kTexts[] = {
    {"bool", "true or false"},
    {"integer from {}", "an integer from {}"},
    {"number from 0 to 1", "a number from 0 to 1"},
    {"{}", "one of {}"},
    {"some of {}", "some of {}, parted by commas,"},
    {"string", "a string"},
    {"path", "a path"},
    {"bytes", "a number of bytes above 0, or a text such as 512MiB,"},
    {"operators", "names such as aten::add, parted by commas,"},
};

std::string argument_text(const Domain& domain) {
  return domain.kind == OptionKind::integer ? fmt::format("{}", domain.least)
                                            : fmt::format("{}", fmt::join(domain.words, ", "));
}

template <class Number>
std::optional<Number> number_from(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> parts;
  while (!words.empty()) {
    const size_t comma = std::min(words.find(','), words.size());
    if (comma > 0) parts.emplace_back(words.substr(0, comma));
    words.remove_prefix(std::min(comma + 1, words.size()));
  }
  return parts;
}

/// Nothing if the text is not a value of this kind.
std::optional<OptionValue> read(const Domain& domain, const std::string& text) {
  if (domain.may_be_unset && text == kUnset) return OptionValue();
  switch (domain.kind) {
    case OptionKind::boolean:
      if (text == "true" || text == "1") return true;
      if (text == "false" || text == "0") return false;
      return std::nullopt;
    case OptionKind::integer: return number_from<int64_t>(text);
    case OptionKind::ratio: return number_from<double>(text);
    case OptionKind::bytes: return bytes_from_text(text);
    case OptionKind::words:
    case OptionKind::operators: return split(text);
    case OptionKind::word:
    case OptionKind::string:
    case OptionKind::path: return text;
  }
  return std::nullopt;
}

bool is_word(const Domain& domain, std::string_view text) {
  return std::find(domain.words.begin(), domain.words.end(), text) != domain.words.end();
}

bool are_words(const Domain& domain, std::vector<std::string> list) {
  std::sort(list.begin(), list.end());
  return std::adjacent_find(list.begin(), list.end()) == list.end() &&
         std::all_of(list.begin(), list.end(),
                     [&](const std::string& text) { return is_word(domain, text); });
}

bool holds(const Domain& domain, const OptionValue& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  const auto* text = std::get_if<std::string>(&value);
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  switch (domain.kind) {
    case OptionKind::boolean: return std::holds_alternative<bool>(value);
    case OptionKind::integer: return integer && *integer >= domain.least && *integer <= domain.most;
    case OptionKind::ratio: return number && *number >= 0 && *number <= 1;
    case OptionKind::bytes: return integer && *integer > 0;
    case OptionKind::operators: return list;
    case OptionKind::words: return list && are_words(domain, *list);
    case OptionKind::word: return text && is_word(domain, *text);
    case OptionKind::string:
    case OptionKind::path: return text;
  }
  return false;
}

}  // namespace

std::string type_text(const Domain& domain) {
  return fmt::format(fmt::runtime(kTexts[static_cast<size_t>(domain.kind)].type),
                     argument_text(domain));
}

std::string expected_text(const Domain& domain) {
  const std::string text = fmt::format(
      fmt::runtime(kTexts[static_cast<size_t>(domain.kind)].expected), argument_text(domain));
  return domain.may_be_unset ? fmt::format("{} or {}", text, kUnset) : text;
}

std::optional<OptionValue> admitted(const Domain& domain, const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  std::optional<OptionValue> found = text != nullptr ? read(domain, *text) : value;
  if (!found) return std::nullopt;
  if (const auto* integer = std::get_if<int64_t>(&*found);
      integer != nullptr && domain.kind == OptionKind::ratio) {
    found = static_cast<double>(*integer);
  }
  const bool unset = std::holds_alternative<std::monostate>(*found);
  if (unset ? !domain.may_be_unset : !holds(domain, *found)) return std::nullopt;
  return found;
}

std::string text_of(const OptionValue& value) {
  struct {
    std::string operator()(std::monostate) const { return std::string(kUnset); }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return fmt::format("{}", i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::string& s) const { return s; }
    std::string operator()(const std::vector<std::string>& list) const {
      return fmt::format("{}", fmt::join(list, ","));
    }
  } text;
  return std::visit(text, value);
}

}  // namespace antegrad
