#include "graph/parse.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "graph/parse_attr.h"
#include "graph/text_cursor.h"
#include "graph/text_words.h"

namespace antegrad {
namespace {

using text::TextCursor;

/// Parses one section after another. Each function reads its lines and leaves the cursor at the
/// next section.
class GraphParser {
 public:
  GraphParser(std::string_view text, const std::string& origin) : cursor_(text, origin) {}

  GraphFile parse() {
    cursor_.peek();
    if (cursor_.at_line_end()) cursor_.next_line();
    parse_header();
    parse_names();
    start_section("inputs");
    while (cursor_.peek() == '%') parse_input();
    start_section("nodes");
    parse_nodes();
    start_section("outputs");
    std::string record;
    while (!cursor_.at_end() && record.empty()) {
      if (cursor_.take("record")) {
        record = parse_record();
      } else {
        parse_output();
      }
    }
    check_mentions();
    return {std::move(graph_), std::move(record)};
  }

 private:
  void parse_header() {
    cursor_.expect(text::kMagic);
    const size_t start = cursor_.position();
    const int version = cursor_.number<int>("the number of the format's version");
    if (version != text::kVersion) {
      cursor_.fail_at(start, fmt::format("version {} of the format", text::kVersion),
                      fmt::format("version {}", version));
    }
    graph_.name = cursor_.quoted_string();
    cursor_.next_line();
  }

  void start_section(std::string_view title) {
    cursor_.expect(title);
    cursor_.next_line();
  }

  void parse_names() {
    if (cursor_.take("symbols")) {
      do parse_symbol();
      while (cursor_.take(","));
      cursor_.next_line();
    }
    parse_name_list("generators", graph_.generators);
    parse_name_list("opaque", graph_.opaque_names);
    if (!cursor_.take("blocks")) return;
    do graph_.blocks.push_back(cursor_.take("none") ? -1 : cursor_.number<int32_t>("a block"));
    while (cursor_.take(","));
    cursor_.next_line();
  }

  void parse_symbol() {
    const std::string id = fmt::format("s{}", graph_.symbols.size());
    if (!cursor_.take(id)) cursor_.fail(fmt::format("the symbol {}", id));
    graph_.symbols.push_back(cursor_.peek() == '"' ? cursor_.quoted_string() : id);
  }

  void parse_name_list(std::string_view title, std::vector<std::string>& names) {
    if (!cursor_.take(title)) return;
    do names.push_back(cursor_.name("a name"));
    while (cursor_.take(","));
    cursor_.next_line();
  }

  // --- values -----------------------------------------------------------------------------------

  ValueId parse_id() {
    const size_t start = cursor_.next_position();
    cursor_.expect("%");
    const auto id = ValueId::from(cursor_.number<int32_t>("the number of a value"));
    if (!id.valid() || id >= text::kMaxValueId) {
      cursor_.fail_at(start, fmt::format("a value below %{}", text::kMaxValueId),
                      fmt::format("%{}", id));
    }
    return id;
  }

  /// A value defined elsewhere; checked at the end.
  ValueId parse_mention() {
    const size_t start = cursor_.next_position();
    const ValueId id = parse_id();
    mentions_.push_back({id, start});
    return id;
  }

  void check_mentions() {
    for (const auto& [id, position] : mentions_) {
      if (defined_.contains(id) && defined_[id]) continue;
      cursor_.fail_at(position, "a value that an input or a node defines", fmt::format("%{}", id));
    }
  }

  Shape parse_shape(std::string_view open, std::string_view close) {
    Shape shape;
    cursor_.expect(open);
    if (cursor_.take(close)) return shape;
    do shape.push_back(parse_int());
    while (cursor_.take(","));
    cursor_.expect(close);
    return shape;
  }

  IntExpr parse_int() {
    const size_t start = cursor_.position();
    IntExpr value = cursor_.int_expr();
    check_symbols(value, start);
    return value;
  }

  void check_symbols(const IntExpr& expr, size_t position) {
    if (expr.kind() == IntExpr::Kind::symbol &&
        std::cmp_greater_equal(expr.symbol_id(), graph_.symbols.size())) {
      cursor_.fail_at(position, "a symbol that the line \"symbols\" names", to_string(expr));
    }
    for (const IntExpr& operand : expr.operands()) check_symbols(operand, position);
  }

  Shape default_strides(const Shape& sizes) {
    try {
      return contiguous_strides(sizes);
    } catch (const GraphError&) {
      cursor_.fail_at(cursor_.position(), "sizes whose product fits in 64 bits", "larger ones");
    }
  }

  TensorMeta parse_meta() {
    TensorMeta meta;
    const size_t start = cursor_.position();
    const std::string_view word = cursor_.word("a dtype, int, float or token");
    const auto dtype = dtype_from_name(word);
    if (!dtype) cursor_.fail_at(start, "a dtype, int, float or token", fmt::format("\"{}\"", word));
    meta.dtype = *dtype;
    meta.sizes = parse_shape("[", "]");
    const size_t strides = cursor_.position();
    meta.strides = cursor_.peek() == '{' ? parse_shape("{", "}") : default_strides(meta.sizes);
    if (meta.strides.size() != meta.sizes.size()) {
      cursor_.fail_at(strides, fmt::format("{} strides", meta.sizes.size()),
                      fmt::format("{}", meta.strides.size()));
    }
    if (cursor_.take("+")) meta.offset = parse_int();
    if (device_from_string(cursor_.peek_word())) meta.device = text::parse_device(cursor_);
    return meta;
  }

  /// "%3: f32[8] &1 ~0"
  ValueId parse_definition() {
    const size_t start = cursor_.next_position();
    const ValueId id = parse_id();
    if (!defined_.contains(id)) {
      graph_.values.resize(id.index() + 1);
      defined_.resize(id.index() + 1, false);
    }
    if (defined_[id]) {
      cursor_.fail_at(start, "a value that nothing before defines", fmt::format("%{} again", id));
    }
    defined_[id] = true;
    cursor_.expect(":");
    cursor_.peek();
    Value value;
    if (!take_kind(text::kValueKinds, value.kind)) value.meta = parse_meta();
    const auto storage = [&](std::string_view mark, std::string_view expected, auto otherwise) {
      return cursor_.take(mark) ? StorageId::from(cursor_.number<int32_t>(expected))
                                : StorageId(otherwise);
    };
    value.storage = storage("&", "the number of a storage", id);
    value.alias_class = storage("~", "the number of an alias class", value.storage);
    graph_.value(id) = std::move(value);
    return id;
  }

  // --- inputs and outputs -----------------------------------------------------------------------

  /// Takes one of these words if it comes next; otherwise leaves `value` unchanged.
  template <class Enum, size_t N>
  bool take_kind(const std::array<std::string_view, N>& table, Enum& value) {
    const std::string_view word = cursor_.peek_word();
    const auto kind = text::from_word<Enum>(table, word);
    if (!kind) return false;
    value = *kind;
    return cursor_.take(word);
  }

  template <class Enum, size_t N>
  Enum parse_kind(const std::array<std::string_view, N>& table, std::string_view expected) {
    const size_t start = cursor_.next_position();
    const std::string_view word = cursor_.word(expected);
    if (const auto kind = text::from_word<Enum>(table, word)) return *kind;
    cursor_.fail_at(start, expected, fmt::format("\"{}\"", word));
  }

  int32_t parse_index() {
    const char next = cursor_.peek();
    return text::is_digit(next) || next == '-' ? cursor_.number<int32_t>("an index") : -1;
  }

  int32_t parse_version() {
    return cursor_.take("version") ? cursor_.number<int32_t>("a version") : 0;
  }

  void parse_input() {
    Input input;
    input.value = parse_definition();
    input.kind =
        parse_kind<InputKind>(text::kInputKinds, "primal, tangent, saved, generator or effect");
    input.index = parse_index();
    if (take_kind(text::kSourceKinds, input.source.kind)) {
      input.source.index = parse_index();
      if (cursor_.peek() == '"') input.source.name = cursor_.quoted_string();
      take_kind(text::kSourceVias, input.source.via);
    }
    input.requires_grad = cursor_.take("grad");
    input.mutates_data = cursor_.take("mutates_data");
    input.mutates_metadata = cursor_.take("mutates_metadata");
    input.inner = cursor_.take("inner");
    if (take_kind(text::kInputStorages, input.storage) &&
        input.storage == InputStorage::allocates) {
      input.storage_bytes = cursor_.int_expr();
    }
    input.version_bumps = parse_version();
    graph_.inputs.push_back(std::move(input));
    cursor_.next_line();
  }

  void parse_output() {
    Output output;
    output.value = cursor_.take("none") ? kNoValue : parse_mention();
    output.kind = parse_kind<OutputKind>(text::kOutputKinds,
                                         "result, base, mutated, generator, effect, saved or "
                                         "gradient");
    output.index = parse_index();
    if (take_kind(text::kAliasKinds, output.alias.kind)) output.alias.index = parse_index();
    output.requires_grad = cursor_.take("grad");
    output.leaf = cursor_.take("leaf");
    output.inner = cursor_.take("inner");
    output.version = parse_version();
    take_kind(text::kOwnViews, output.own_view);
    output.update = cursor_.take("update");
    graph_.outputs.push_back(output);
    cursor_.next_line();
  }

  /// The rest of the text: one JSON object.
  std::string parse_record() {
    cursor_.next_line();
    const std::string_view rest = cursor_.rest();
    const std::string_view text = rest.substr(0, rest.find_last_not_of(" \t\r\n") + 1);
    if (!text.starts_with('{')) cursor_.fail("a JSON object");
    try {
      [[maybe_unused]] const auto parsed = nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception& error) {
      cursor_.fail_at(cursor_.position(), "a JSON object", error.what());
    }
    return std::string(text);
  }

  // --- nodes ------------------------------------------------------------------------------------

  void parse_nodes() {
    Phase phase = Phase::forward;
    while (true) {
      const std::string_view word = cursor_.peek_word();
      if (const auto next = text::from_word<Phase>(text::kPhases, word)) {
        phase = *next;
        start_section(word);
      } else if (cursor_.peek() == '%' || word == "none" || word.find("::") != word.npos) {
        parse_node(phase);
      } else {
        return;
      }
    }
  }

  void parse_node(Phase phase) {
    Node node;
    node.phase = phase;
    if (cursor_.peek() == '%' || cursor_.peek_word() == "none") {
      do node.outputs.push_back(cursor_.take("none") ? kNoValue : parse_definition());
      while (cursor_.take(","));
      cursor_.expect("=");
    }
    parse_call(node);
    if (cursor_.take("in")) node.block = cursor_.number<int32_t>("a block");
    take_kind(text::kRecompute, node.recompute);
    node.id = cursor_.trailing_number();
    graph_.nodes.push_back(std::move(node));
    cursor_.next_line();
  }

  void parse_call(Node& node) {
    const size_t start = cursor_.next_position();
    const std::string_view name = cursor_.word("an operator such as aten::add.Tensor");
    try {
      node.op = Op::intern(name);
    } catch (const GraphError&) {
      cursor_.fail_at(start, "an operator of the form namespace::name.overload",
                      fmt::format("\"{}\"", name));
    }
    cursor_.expect("(");
    std::vector<std::string> names;
    bool named = false;
    if (cursor_.peek() != ')' && cursor_.peek() != ';') {
      do {
        names.push_back(parse_arg_name(node.op, names.size()));
        named = named || !names.back().empty();
        const size_t position = cursor_.position();
        node.args.push_back(
            text::parse_attr(cursor_, [&] { node.inputs.push_back(parse_mention()); }));
        check_attr_symbols(node.args.back(), position);
      } while (cursor_.take(","));
    }
    if (cursor_.take(";")) {
      do {
        node.inputs.push_back(parse_mention());
        ++node.tokens;
      } while (cursor_.take(","));
    }
    cursor_.expect(")");
    if (named) Op::suggest_arg_names(node.op, std::move(names));
  }

  /// "p=" before an argument; empty if there is none.
  std::string parse_arg_name(Op op, size_t index) {
    const std::string_view word = cursor_.peek_word();
    const size_t start = cursor_.position();
    if (word.empty() || !cursor_.rest().substr(word.size()).starts_with('=')) return {};
    cursor_.take(word);
    cursor_.expect("=");
    if (!text::is_identifier(word)) {
      cursor_.fail_at(start, "the name of an argument", fmt::format("\"{}\"", word));
    }
    const std::vector<std::string>& known = op.info().arg_names;
    if (op.arg_names_declared() && (index >= known.size() || known[index] != word)) {
      const std::string expected =
          index < known.size()
              ? fmt::format("\"{}\", argument {} of {}", known[index], index, op.name())
              : fmt::format("the {} arguments of {}", known.size(), op.name());
      cursor_.fail_at(start, expected, fmt::format("\"{}\"", word));
    }
    return std::string(word);
  }

  void check_attr_symbols(const Attr& attr, size_t position) {
    const auto check_scalar = [&](const attr::Scalar& scalar) {
      if (const auto* expr = std::get_if<IntExpr>(&scalar.value)) check_symbols(*expr, position);
    };
    if (const auto* expr = std::get_if<IntExpr>(&attr.value)) check_symbols(*expr, position);
    if (const auto* shape = std::get_if<Shape>(&attr.value)) {
      for (const IntExpr& entry : *shape) check_symbols(entry, position);
    }
    if (const auto* scalar = std::get_if<attr::Scalar>(&attr.value)) check_scalar(*scalar);
    if (const auto* number = std::get_if<attr::WrappedNumber>(&attr.value))
      check_scalar(number->value);
    if (const auto* list = std::get_if<std::vector<attr::Scalar>>(&attr.value)) {
      std::for_each(list->begin(), list->end(), check_scalar);
    }
  }

  TextCursor cursor_;
  Graph graph_;
  IdMap<ValueId, bool> defined_;
  std::vector<std::pair<ValueId, size_t>> mentions_;
};

}  // namespace

Graph parse_graph(std::string_view text, const std::string& origin) {
  return GraphParser(text, origin).parse().graph;
}

GraphFile parse_graph_file(std::string_view text, const std::string& origin) {
  return GraphParser(text, origin).parse();
}

}  // namespace antegrad
