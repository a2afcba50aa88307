#pragma once

/// \file
/// Reads the textual form from left to right: words, numbers, strings and punctuation, with errors
/// that say where they happened. Holds a view: the text must outlive it.

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/int_expr.h"

namespace antegrad::text {

class TextCursor {
 public:
  /// `origin` names the text in errors, e.g. its file.
  TextCursor(std::string_view text, std::string origin)
      : text_(text), rest_(text), origin_(std::move(origin)) {}

  /// Skips spaces. Returns the next character of the line, '\n' at its end (comments skipped) and
  /// '\0' at the end of the text.
  char peek();
  /// True if the rest of the line is empty or a comment.
  bool at_line_end() { return peek() == '\n' || peek() == '\0'; }
  /// Goes to the next line that is not empty. The rest of this one must be empty or a comment.
  void next_line();
  bool at_end() { return peek() == '\0'; }

  /// Takes `word` if it is next. A word of letters must also end there.
  bool take(std::string_view word);
  void expect(std::string_view word);
  /// Letters, digits and _ . : - starting with a letter. Empty if something else is next.
  std::string_view peek_word();
  std::string_view word(std::string_view expected);
  std::string quoted_string();
  /// A bare word or a quoted string.
  std::string name(std::string_view expected);
  IntExpr int_expr();
  template <class Number>
  Number number(std::string_view expected) {
    peek();
    Number value{};
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail(expected);
    rest_.remove_prefix(stop - rest_.data());
    return value;
  }
  /// Hexadecimal digits, at least one.
  uint64_t hex_number();
  /// The number in a comment "# 12" at the end of the line, -1 without one.
  int32_t trailing_number();

  /// The rest of the text after spaces, to look ahead.
  std::string_view rest();

  size_t position() const { return text_.size() - rest_.size(); }
  /// The position after spaces.
  size_t next_position() { return rest(), position(); }
  [[noreturn]] void fail(std::string_view expected);
  [[noreturn]] void fail_at(size_t position, std::string_view expected, std::string_view found);

 private:
  std::string place(size_t position) const;

  std::string_view text_;
  std::string_view rest_;
  std::string origin_;
};

}  // namespace antegrad::text
