#include "graph/text_cursor.h"

#include <algorithm>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/text_quote.h"
#include "graph/text_words.h"

namespace antegrad::text {

std::string_view TextCursor::rest() {
  const size_t blanks = rest_.find_first_not_of(" \t\r");
  rest_.remove_prefix(std::min(blanks, rest_.size()));
  return rest_;
}

char TextCursor::peek() {
  if (rest().empty()) return '\0';
  if (rest_.front() != '#') return rest_.front();
  return rest_.find('\n') == std::string_view::npos ? '\0' : '\n';
}

void TextCursor::next_line() {
  if (!at_line_end()) fail("the end of the line");
  while (at_line_end() && !rest_.empty()) {
    const size_t newline = rest_.find('\n');
    rest_.remove_prefix(newline == std::string_view::npos ? rest_.size() : newline + 1);
  }
}

bool TextCursor::take(std::string_view word) {
  if (!rest().starts_with(word)) return false;
  const bool longer_word = is_letter(word.front()) && is_letter(word.back()) &&
                           rest_.size() > word.size() && is_word_character(rest_[word.size()]);
  if (longer_word) return false;
  rest_.remove_prefix(word.size());
  return true;
}

void TextCursor::expect(std::string_view word) {
  if (!take(word)) fail(fmt::format("\"{}\"", word));
}

std::string_view TextCursor::peek_word() {
  const std::string_view line = rest();
  if (line.empty() || !is_letter(line.front())) return {};
  const auto end = std::ranges::find_if_not(line, is_word_character);
  return line.substr(0, end - line.begin());
}

std::string_view TextCursor::word(std::string_view expected) {
  const std::string_view found = peek_word();
  if (found.empty()) fail(expected);
  rest_.remove_prefix(found.size());
  return found;
}

std::string TextCursor::quoted_string() {
  if (peek() != '"') fail("a string in double quotes");
  rest_.remove_prefix(1);
  std::string result;
  while (!rest_.empty() && rest_.front() != '"' && rest_.front() != '\n') {
    char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '\\') {
      if (rest_.empty()) break;
      c = rest_.front();
      rest_.remove_prefix(1);
      if (c == 'x') {
        int code = 0;
        const auto [stop, error] = std::from_chars(
            rest_.data(), rest_.data() + std::min<size_t>(2, rest_.size()), code, 16);
        if (error != std::errc() || stop != rest_.data() + 2) fail("two hexadecimal digits");
        rest_.remove_prefix(2);
        c = static_cast<char>(code);
      } else if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      } else if (c != '"' && c != '\\') {
        fail("one of the escapes \\n, \\t, \\\", \\\\ and \\xNN");
      }
    }
    result += c;
  }
  if (rest_.empty() || rest_.front() != '"') fail("\" at the end of the string");
  rest_.remove_prefix(1);
  return result;
}

std::string TextCursor::name(std::string_view expected) {
  return peek() == '"' ? quoted_string() : std::string(word(expected));
}

IntExpr TextCursor::int_expr() {
  rest();
  try {
    return parse_int_expr(rest_);
  } catch (const GraphError& error) {
    throw GraphError(fmt::format("{}{}", error.what(), place(position())));
  }
}

uint64_t TextCursor::hex_number() {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, 16);
  if (error != std::errc()) fail("hexadecimal digits");
  rest_.remove_prefix(stop - rest_.data());
  return value;
}

int32_t TextCursor::trailing_number() {
  std::string_view line = rest();
  if (!line.starts_with('#')) return -1;
  line.remove_prefix(1);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  int32_t value = -1;
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  return error == std::errc() ? value : -1;
}

std::string TextCursor::place(size_t position) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format(" in {}, line {}, column {}", origin_, line, position - line_start + 1);
}

void TextCursor::fail(std::string_view expected) {
  const std::string_view line =
      rest_.substr(0, std::min(rest_.find_first_of("\r\n"), rest_.size()));
  constexpr size_t kShown = 24;
  std::string found = "the end of the line";
  if (!line.empty()) found = quoted(line.substr(0, kShown));
  if (rest_.empty()) found = "the end of the text";
  fail_at(position(), expected, found);
}

void TextCursor::fail_at(size_t position, std::string_view expected, std::string_view found) {
  throw GraphError(ErrorText{std::string(expected), std::string(found) + place(position), ""});
}

}  // namespace antegrad::text
