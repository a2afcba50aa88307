// Reads the language of recipes: lines of an operator, and expressions.

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/text_words.h"
#include "lower/recipe.h"

namespace antegrad::lower {
namespace {

/// Where a text is read, for errors.
struct Place {
  const std::string& origin;
  int32_t line = 0;

  [[noreturn]] void fail(std::string expected, std::string_view found) const {
    throw GraphError(ErrorText{fmt::format("{}, line {}: {}", origin, line, expected),
                               found.empty() ? "the end of the line" : fmt::format("\"{}\"", found),
                               ""});
  }
};

struct NamedOp {
  std::string_view name;
  Op op;
  size_t operands;
};

constexpr NamedOp kNamedOps[] = {
    {"fma", Op::fma, 3},          {"min_x86", Op::min, 2},     {"max_x86", Op::max, 2},
    {"minimum", Op::minimum, 2},  {"maximum", Op::maximum, 2}, {"select", Op::select, 3},
    {"both", Op::bit_and, 2},     {"either", Op::bit_or, 2},   {"sqrt", Op::sqrt, 1},
    {"floor", Op::floor, 1},      {"ceil", Op::ceil, 1},       {"trunc", Op::trunc, 1},
    {"round_even", Op::round, 1}, {"abs", Op::abs, 1},         {"differ", Op::bit_xor, 2},
    {"opposite", Op::bit_not, 1},
};

/// By falling strength; each row of operators of one strength.
constexpr NamedOp kComparisons[] = {{"<=", Op::le, 2}, {">=", Op::ge, 2}, {"==", Op::eq, 2},
                                    {"!=", Op::ne, 2}, {"<", Op::lt, 2},  {">", Op::gt, 2}};
constexpr NamedOp kSums[] = {{"+", Op::add, 2}, {"-", Op::sub, 2}};
constexpr NamedOp kProducts[] = {{"*", Op::mul, 2}, {"/", Op::div, 2}};

/// Operands of a function that is no operation; 0 if there is none of that name.
size_t arity_of(std::string_view name) {
  if (fold_function(name) != nullptr) return 1;
  if (name == "muladd") return 3;
  if (name == "libm_pow_double" || name == "ends") return 2;
  if (name == "wide" || name == "narrow" || name == "exact") return 1;
  if (name == "rnd" || name == "dnn_gelu" || name == "dnn_gelu_backward_factor" ||
      name == "dnn_rnd_bf16") {
    return 1;
  }
  for (const std::string_view prefix : {"vec_", "libm_", "vml_"}) {
    if (!name.starts_with(prefix)) continue;
    const LibraryFunction* function = library_function(name.substr(prefix.size()));
    if (function == nullptr || (prefix == "vml_" && function->mkl.empty())) return 0;
    return function->arity;
  }
  return 0;
}

class FormulaParser {
 public:
  /// `sums`: the formula adds to `acc`, a sum over rows.
  FormulaParser(std::string_view text, const Recipe& recipe, bool sums, Place place)
      : rest_(text), place_(place) {
    if (sums) names_["acc"] = add({Term::Kind::accumulator});
    for (size_t i = 0; i < recipe.inputs.size(); ++i) {
      names_[recipe.inputs[i].name] = add({Term::Kind::input, static_cast<int32_t>(i)});
    }
    for (size_t i = 0; i < recipe.numbers.size(); ++i) {
      names_[recipe.numbers[i]] = add({Term::Kind::number, static_cast<int32_t>(i)});
    }
  }

  Formula parse() {
    while (true) {
      const std::string_view start = rest_;
      const std::string_view name = word();
      if (!name.empty() && peek() == '=' && !rest_.starts_with("==")) {
        rest_.remove_prefix(1);
        names_[std::string(name)] = comparison();
        if (!take(";")) place_.fail("\";\" behind the value of a name", rest_);
        continue;
      }
      rest_ = start;
      const int32_t result = comparison();
      if (peek() != '\0') place_.fail("the end of the expression", rest_);
      // The result is the last term.
      if (result + 1 != static_cast<int32_t>(terms_.size())) add(Term(terms_[result]));
      return std::move(terms_);
    }
  }

 private:
  int32_t add(Term term) {
    terms_.push_back(std::move(term));
    return static_cast<int32_t>(terms_.size()) - 1;
  }
  int32_t add(Op op, std::vector<int32_t> operands) {
    return add({Term::Kind::operation, -1, 0, op, "", std::move(operands)});
  }

  char peek() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool take(std::string_view token) {
    peek();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::string_view word() {
    if (!text::is_letter(peek())) return {};
    const auto end = std::ranges::find_if_not(rest_, text::is_name_character);
    const std::string_view found = rest_.substr(0, end - rest_.begin());
    rest_.remove_prefix(found.size());
    return found;
  }

  int32_t comparison() {
    const int32_t left = sum();
    for (const NamedOp& row : kComparisons) {
      if (take(row.name)) return add(row.op, {left, sum()});
    }
    return left;
  }
  int32_t sum() {
    return chain(kSums, [&] { return chain(kProducts, [&] { return factor(); }); });
  }
  template <size_t N, class Operand>
  int32_t chain(const NamedOp (&table)[N], const Operand& operand) {
    int32_t left = operand();
    while (true) {
      const auto* row = std::ranges::find_if(table, [&](const auto& r) { return take(r.name); });
      if (row == std::end(table)) return left;
      const int32_t right = operand();
      left = add(row->op, {left, right});
    }
  }

  int32_t factor() {
    if (take("-")) return add(Op::neg, {factor()});
    if (take("(")) {
      const int32_t inner = comparison();
      if (!take(")")) place_.fail("\")\"", rest_);
      return inner;
    }
    if (text::is_digit(peek())) {
      double value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc()) place_.fail("a number", rest_);
      rest_.remove_prefix(end - rest_.data());
      return add({Term::Kind::constant, -1, value});
    }
    const std::string_view name = word();
    if (name.empty()) place_.fail("an operand", rest_);
    if (take("(")) return call(name);
    if (name == "inf") {
      return add({Term::Kind::constant, -1, std::numeric_limits<double>::infinity()});
    }
    if (name == "column" && !names_.contains(name)) {
      return names_["column"] = add({Term::Kind::column});
    }
    const auto found = names_.find(name);
    if (found == names_.end()) place_.fail("an input, a number or a name given before", name);
    return found->second;
  }

  int32_t call(std::string_view name) {
    const FoldFunction* fold = fold_function(name);
    const bool accumulates = fold != nullptr && fold->order == Order::lanes;
    if (accumulates) {
      names_["acc"] = add({.kind = Term::Kind::accumulator,
                           .constant = fold->start,
                           .function = std::string(name)});
    }
    std::vector<int32_t> operands;
    do operands.push_back(comparison());
    while (take(","));
    if (!take(")")) place_.fail("\")\"", rest_);
    if (accumulates) names_.erase("acc");
    const auto* row = std::ranges::find(kNamedOps, name, &NamedOp::name);
    const bool operation = row != std::end(kNamedOps);
    const size_t arity = operation ? row->operands : arity_of(name);
    if (arity == 0) place_.fail("a function of docs/exact-kernels.md", name);
    if (arity != operands.size()) {
      place_.fail(fmt::format("{} operands of {}", arity, name), std::to_string(operands.size()));
    }
    if (operation) return add(row->op, std::move(operands));
    const Term::Kind kind = fold != nullptr  ? Term::Kind::fold
                            : name == "ends" ? Term::Kind::ends
                                             : Term::Kind::function;
    return add({kind, -1, 0, Op::call, std::string(name), std::move(operands)});
  }

  std::string_view rest_;
  Place place_;
  Formula terms_;
  std::map<std::string, int32_t, std::less<>> names_;
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \r") - first + 1);
}

std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> list;
  while (!trimmed(text).empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    list.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

class RecipesParser {
 public:
  explicit RecipesParser(const std::string& origin) : place_{origin} {}

  std::vector<Recipe> parse(std::string_view text) {
    while (!text.empty()) {
      ++place_.line;
      const size_t end = std::min(text.find('\n'), text.size());
      if (const auto line = trimmed(text.substr(0, end)); !line.empty() && line.front() != '#') {
        parse_line(line);
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    end_row();
    return std::move(recipes_);
  }

 private:
  void parse_line(std::string_view line) {
    const std::string_view word = line.substr(0, line.find(' '));
    const std::string_view rest = trimmed(line.substr(word.size()));
    if (word == "operator") return parse_operator(rest);
    if (recipes_.empty()) place_.fail("an operator", word);
    Recipe& recipe = recipes_.back();
    if (word == "source") return;
    if (word == "when") {
      recipe.when = rest;
    } else if (word == "promotes") {
      recipe.promotes = true;
    } else if (word == "close") {
      if (rest != "paths") place_.fail("paths", rest);
      recipe.close_paths = true;
    } else if (word == "upto") {
      recipe.upto = capability(rest);
    } else if (word == "over") {
      if (rest != "columns" && rest != "channels") place_.fail("columns or channels", rest);
      recipe.channels = rest == "channels";
      if (!recipe.channels) recipe.over = Space::columns;
    } else if (word == "split") {
      if (rest != "gelu") place_.fail("gelu", rest);
      recipe.split = ThreadSplit::gelu;
    } else if (word == "vectors") {
      if (std::from_chars(rest.data(), rest.data() + rest.size(), recipe.vectors).ec !=
          std::errc()) {
        place_.fail("a number of vectors", rest);
      }
    } else if (dtype_from_name(word)) {
      parse_row(line);
    } else {
      parse_formula(word, rest);
    }
  }

  void parse_operator(std::string_view text) {
    end_row();
    Recipe recipe;
    const size_t open = text.find('(');
    const size_t close = text.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos) {
      place_.fail("NAME(inputs; numbers)", text);
    }
    recipe.name = identifier(text.substr(0, open));
    const std::string_view parameters = text.substr(open + 1, close - open - 1);
    const size_t middle = std::min(parameters.find(';'), parameters.size());
    for (const std::string_view input : pieces(parameters.substr(0, middle), ',')) {
      const size_t colon = std::min(input.find(':'), input.size());
      RecipeInput parsed{identifier(input.substr(0, colon)), {}};
      if (colon < input.size()) parsed.type = type(trimmed(input.substr(colon + 1)));
      recipe.inputs.push_back(std::move(parsed));
    }
    if (middle < parameters.size()) {
      for (const auto number : pieces(parameters.substr(middle + 1), ',')) {
        recipe.numbers.push_back(identifier(number));
      }
    }
    std::string_view result = trimmed(text.substr(close + 1));
    if (result.starts_with("->")) {
      recipe.result = type(trimmed(result.substr(2)));
    } else if (!result.empty()) {
      place_.fail("-> and the type of the result", result);
    }
    recipes_.push_back(std::move(recipe));
  }

  void parse_row(std::string_view line) {
    end_row();
    RecipeRow row;
    const auto words = pieces(line, ' ');
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "constant" && i + 1 < words.size()) {
        row.constant = words[++i];
      } else if (words[i] == "close") {
        row.close = true;
      } else if (words[i] == "second") {
        row.second = true;
      } else if (words[i].starts_with("@")) {
        row.capabilities.push_back(capability(words[i].substr(1)));
      } else {
        row.types.push_back(type(words[i]));
      }
    }
    if (row.capabilities.empty()) {
      row.capabilities = {Capability::baseline, Capability::avx2, Capability::avx512};
    }
    recipes_.back().rows.push_back(std::move(row));
  }

  void parse_formula(std::string_view word, std::string_view text) {
    Recipe& recipe = recipes_.back();
    if (word != "body" && word != "tail" && word != "tail16" && word != "each" && word != "row" &&
        word != "sums" && word != "added") {
      place_.fail("a word of docs/exact-kernels.md", word);
    }
    if (recipe.rows.empty()) place_.fail("a line of element types", word);
    RecipeRow& row = recipe.rows.back();
    Formula formula = FormulaParser(text, recipe, word == "sums", place_).parse();
    if (word == "row" || word == "sums") {
      (word == "row" ? row.rows : row.sums).push_back(std::move(formula));
      return;
    }
    if (word == "added") {
      row.added = std::move(formula);
      return;
    }
    if (word == "each") row.tail = formula;
    (word == "tail" ? row.tail : word == "tail16" ? row.tail16 : row.body) = std::move(formula);
  }

  /// A row needs both formulas.
  void end_row() const {
    if (recipes_.empty()) return;
    for (const RecipeRow& row : recipes_.back().rows) {
      if (row.body.empty() != row.tail.empty() || (row.body.empty() && row.rows.empty())) {
        place_.fail("each, row, or body and tail, in the row before", "a row without");
      }
    }
  }

  std::string identifier(std::string_view text) const {
    if (!text::is_identifier(trimmed(text))) place_.fail("a name", text);
    return std::string(trimmed(text));
  }
  DType type(std::string_view word) const {
    const auto found = dtype_from_name(word);
    if (!found) place_.fail("an element type", word);
    return *found;
  }
  Capability capability(std::string_view word) const {
    const auto found = capability_from_name(word);
    if (!found) place_.fail("default, avx2 or avx512", word);
    return *found;
  }

  Place place_;
  std::vector<Recipe> recipes_;
};

}  // namespace

std::vector<Recipe> parse_recipes(std::string_view text, const std::string& origin) {
  return RecipesParser(origin).parse(text);
}

}  // namespace antegrad::lower
