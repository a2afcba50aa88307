#include "graph/parse_attr.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/text_words.h"

namespace antegrad::text {
namespace {

constexpr std::string_view kAnArgument =
    "an argument: a value, number, string, list, dtype, device, true, false, none, or one of "
    "complex, scalar, wrapped, layout, format, generator, opaque in parentheses";

/// "s0", "min(", "(4*s0": the start of an integer expression that is not a plain number.
bool starts_expression(std::string_view rest) {
  if (rest.starts_with("(") || rest.starts_with("min(") || rest.starts_with("max(")) return true;
  if (rest.starts_with("-")) rest.remove_prefix(1);
  return rest.size() > 1 && rest[0] == 's' && is_digit(rest[1]);
}

/// True if the number at the front has a point or an exponent, or is inf.
bool is_float(std::string_view rest) {
  if (rest.starts_with("-")) rest.remove_prefix(1);
  if (rest.starts_with("inf") || rest.starts_with("nan")) return true;
  size_t i = 0;
  while (i < rest.size() && is_digit(rest[i])) ++i;
  return i > 0 && i < rest.size() && (rest[i] == '.' || rest[i] == 'e');
}

double parse_float(TextCursor& cursor) {
  if (cursor.take("nan")) {
    if (!cursor.take("(")) return std::bit_cast<double>(uint64_t{0x7FF8000000000000});
    cursor.expect("0x");
    const double value = std::bit_cast<double>(cursor.hex_number());
    if (!std::isnan(value)) cursor.fail("the bits of a NaN");
    cursor.expect(")");
    return value;
  }
  if (cursor.take("inf")) return std::numeric_limits<double>::infinity();
  if (cursor.take("-inf")) return -std::numeric_limits<double>::infinity();
  return cursor.number<double>("a floating-point number");
}

std::complex<double> parse_complex(TextCursor& cursor) {
  cursor.expect("(");
  const double real = parse_float(cursor);
  cursor.expect(",");
  const double imaginary = parse_float(cursor);
  cursor.expect(")");
  return {real, imaginary};
}

attr::Scalar parse_scalar_value(TextCursor& cursor) {
  if (cursor.take("true")) return {true};
  if (cursor.take("false")) return {false};
  if (cursor.take("complex")) return {parse_complex(cursor)};
  if (is_float(cursor.rest())) return {parse_float(cursor)};
  return {cursor.int_expr()};
}

DType parse_dtype(TextCursor& cursor) {
  const size_t start = cursor.position();
  const std::string_view word = cursor.word("a dtype such as f32");
  if (const auto dtype = dtype_from_name(word)) return *dtype;
  cursor.fail_at(start, "a dtype such as f32", "\"" + std::string(word) + "\"");
}

Attr parse_wrapped(TextCursor& cursor) {
  attr::WrappedNumber number{parse_scalar_value(cursor), DType::f64};
  cursor.expect(":");
  number.dtype = parse_dtype(cursor);
  return number;
}

template <class Kind>
Attr parse_named(TextCursor& cursor) {
  return Kind{cursor.name("a name")};
}

template <class Kind>
Attr parse_indexed(TextCursor& cursor) {
  return Kind{cursor.number<int32_t>("an index")};
}

template <class T>
Attr empty_list(TextCursor&) {
  return std::vector<T>();
}

struct WordRow {
  std::string_view word;
  std::string_view brackets;          // around the rest; "" if there is no rest
  Attr (*parse)(TextCursor& cursor);  // parses what is in the brackets
};

constexpr WordRow kWords[] = {
    {"none", "", [](TextCursor&) { return Attr(attr::None{}); }},
    {"true", "", [](TextCursor&) { return Attr(true); }},
    {"false", "", [](TextCursor&) { return Attr(false); }},
    {"complex", "", [](TextCursor& cursor) { return Attr(parse_complex(cursor)); }},
    {"scalar", "()", [](TextCursor& cursor) { return Attr(parse_scalar_value(cursor)); }},
    {"wrapped", "()", parse_wrapped},
    {"layout", "()", parse_named<attr::Layout>},
    {"format", "()", parse_named<attr::MemoryFormat>},
    {"generator", "()", parse_indexed<attr::Generator>},
    {"opaque", "()", parse_indexed<attr::Opaque>},
    {kEmptyList<double>, "[]", empty_list<double>},
    {kEmptyList<bool>, "[]", empty_list<bool>},
    {kEmptyList<std::string>, "[]", empty_list<std::string>},
    {kEmptyList<attr::Scalar>, "[]", empty_list<attr::Scalar>},
};

Attr parse_input_list(TextCursor& cursor, const std::function<void()>& read_value) {
  cursor.expect("{");
  attr::InputList list;
  if (cursor.take("}")) return list;
  do {
    const bool present = !cursor.take("none");
    list.present.push_back(present);
    if (present) read_value();
  } while (cursor.take(","));
  cursor.expect("}");
  return list;
}

template <class T>
Attr rest_of_list(TextCursor& cursor, T first) {
  std::vector<T> list{std::move(first)};
  while (cursor.take(",")) {
    const size_t start = cursor.position();
    Attr next = parse_attr(cursor, [&cursor] { cursor.fail("a list in [] without values"); });
    if (!next.is<T>()) cursor.fail_at(start, "an entry of the kind of the first", "another kind");
    list.push_back(next.as<T>());
  }
  cursor.expect("]");
  return list;
}

Attr parse_list(TextCursor& cursor) {
  cursor.expect("[");
  if (cursor.take("]")) return Shape();
  const size_t start = cursor.position();
  if (cursor.peek() == '[') cursor.fail("no list inside of a list");
  Attr first = parse_attr(cursor, [&cursor] { cursor.fail("values in a list in {}"); });
  if (first.is<IntExpr>()) return rest_of_list(cursor, first.as<IntExpr>());
  if (first.is<double>()) return rest_of_list(cursor, first.as<double>());
  if (first.is<bool>()) return rest_of_list(cursor, first.as<bool>());
  if (first.is<std::string>()) return rest_of_list(cursor, first.as<std::string>());
  if (first.is<attr::Scalar>()) return rest_of_list(cursor, first.as<attr::Scalar>());
  cursor.fail_at(start, "a list of numbers, bools, strings or scalars", "another kind of entry");
}

}  // namespace

Device parse_device(TextCursor& cursor) {
  const size_t start = cursor.position();
  const std::string_view word = cursor.word("a device such as cuda:0");
  if (const auto device = device_from_string(word)) return *device;
  cursor.fail_at(start, "a device such as cuda:0", "\"" + std::string(word) + "\"");
}

Attr parse_attr(TextCursor& cursor, const std::function<void()>& read_value) {
  switch (cursor.peek()) {
    case '%': read_value(); return attr::Input{};
    case '{': return parse_input_list(cursor, read_value);
    case '[': return parse_list(cursor);
    case '"': return cursor.quoted_string();
    default: break;
  }
  const std::string_view rest = cursor.rest();
  if (is_float(rest)) return parse_float(cursor);
  if (starts_expression(rest) || is_digit(cursor.peek()) || cursor.peek() == '-') {
    return cursor.int_expr();
  }
  const std::string_view word = cursor.peek_word();
  for (const WordRow& row : kWords) {
    if (row.word != word) continue;
    cursor.take(word);
    if (row.brackets.empty()) return row.parse(cursor);
    cursor.expect(row.brackets.substr(0, 1));
    Attr attr = row.parse(cursor);
    cursor.expect(row.brackets.substr(1));
    return attr;
  }
  if (const auto dtype = dtype_from_name(word)) {
    cursor.take(word);
    return *dtype;
  }
  if (const auto device = device_from_string(word)) {
    cursor.take(word);
    return *device;
  }
  cursor.fail(kAnArgument);
}

}  // namespace antegrad::text
