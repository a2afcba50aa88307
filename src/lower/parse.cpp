#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "graph/text_cursor.h"
#include "lower/scalar.h"
#include "lower/text.h"
#include "lower/words.h"

namespace antegrad::lower {
namespace {

/// Parses one line after another.
class KernelParser {
 public:
  KernelParser(std::string_view text, const std::string& origin) : cursor_(text, origin) {}

  Kernel parse() {
    cursor_.peek();
    if (cursor_.at_line_end()) cursor_.next_line();
    parse_header();
    while (cursor_.take("number")) parse_number();
    while (cursor_.take("function")) parse_function();
    while (cursor_.take("buffer")) parse_buffer();
    kernel_.space = one_of<Space>(words::kSpaces, "a space: elements, rows or columns");
    kernel_.sizes = extents();
    if (cursor_.take("inner")) kernel_.inner = cursor_.number<int32_t>("dimensions of a row");
    cursor_.next_line();
    while (!cursor_.at_end()) parse_stage();
    return std::move(kernel_);
  }

 private:
  void parse_header() {
    cursor_.expect(words::kMagic);
    const size_t start = cursor_.position();
    const int version = cursor_.number<int>("the number of the form's version");
    if (version != words::kVersion) {
      cursor_.fail_at(start, fmt::format("version {} of the form", words::kVersion),
                      fmt::format("version {}", version));
    }
    kernel_.name = cursor_.word("the kernel's name");
    cursor_.next_line();
  }

  void parse_number() {
    const std::string name(cursor_.word("the number's name"));
    kernel_.numbers.push_back({name, type()});
    cursor_.next_line();
  }

  void parse_function() {
    Function function;
    function.name = cursor_.word("the function's name");
    function.type = type();
    function.arity = cursor_.number<int32_t>("the number of arguments");
    function.form = one_of<CallForm>(words::kCallForms, "lane, vector or strip");
    if (function.form == CallForm::vector) function.lanes = cursor_.number<int32_t>("lanes");
    if (function.form == CallForm::strip) function.mode = cursor_.number<int64_t>("a mode");
    function.symbol = cursor_.word("the function's symbol");
    if (cursor_.peek() == '"') function.text = cursor_.quoted_string();
    kernel_.functions.push_back(std::move(function));
    cursor_.next_line();
  }

  void parse_buffer() {
    Buffer buffer;
    buffer.name = cursor_.word("the buffer's name");
    buffer.type = type();
    buffer.read = cursor_.take("read");
    buffer.written = cursor_.take("write");
    buffer.strides = extents();
    if (cursor_.take("offset")) buffer.offset = extent();
    if (cursor_.take("thread")) buffer.thread = extent();
    if (cursor_.take("gather")) buffer.gather = extent();
    kernel_.buffers.push_back(std::move(buffer));
    cursor_.next_line();
  }

  void parse_stage() {
    Stage stage;
    stage.kind = one_of<StageKind>(words::kStages, "a stage: each, row or fold");
    if (stage.kind == StageKind::fold) parse_fold(stage.fold);
    cursor_.next_line();
    stage.begin = static_cast<Id>(kernel_.code.size());
    while (parse_line(stage)) cursor_.next_line();
    stage.end = static_cast<Id>(kernel_.code.size());
    kernel_.stages.push_back(stage);
  }

  void parse_fold(Fold& fold) {
    fold.order = one_of<Order>(words::kOrders, "an order, as lanes or pairwise");
    fold.lanes = cursor_.number<int32_t>("lanes");
    fold.accumulators = cursor_.number<int32_t>("accumulators");
    if (fold.order == Order::moments && cursor_.take("fused")) {
      fold.fused = one_of<Fused>(words::kFused, "vectors, all or none");
    }
    if (fold.order == Order::blocks) fold.combine = op();
    if (fold.order != Order::lanes && fold.order != Order::vectors) return;
    fold.merge = one_of<Merge>(words::kMerges, "tree or sequence");
    if (fold.order != Order::lanes) return;
    fold.combine = op();
    fold.segments = cursor_.take("segments");
  }

  /// One instruction or yield. False if something else is next.
  bool parse_line(Stage& stage) {
    if (cursor_.take("yield")) {
      stage.fold.value = operand();
      return true;
    }
    const bool names_a_value = cursor_.peek() == '%';
    if (!names_a_value && cursor_.peek_word() != row_of(Op::store).name) return false;
    if (names_a_value) {
      const size_t start = cursor_.next_position();
      const Id id = value_id();
      if (id != static_cast<Id>(kernel_.code.size())) {
        cursor_.fail_at(start, fmt::format("%{}, the instruction's position", kernel_.code.size()),
                        fmt::format("%{}", id));
      }
      cursor_.expect("=");
    }
    Instruction code;
    code.op = op();
    code.type = type();
    parse_subject(code);
    while (cursor_.peek() == '%') code.operands.push_back(operand());
    parse_detail(code);
    kernel_.code.push_back(std::move(code));
    return true;
  }

  void parse_subject(Instruction& code) {
    switch (code.op) {
      case Op::constant:
      case Op::accumulator: code.bits = constant(code.type); break;
      case Op::number: code.index = named(kernel_.numbers, "a number"); break;
      case Op::index: code.index = cursor_.number<int32_t>("a dimension"); break;
      case Op::load:
      case Op::gather:
      case Op::store: code.index = named(kernel_.buffers, "a buffer"); break;
      case Op::call: code.index = named(kernel_.functions, "a function"); break;
      default: break;
    }
  }

  void parse_detail(Instruction& code) {
    if (code.op == Op::cast && cursor_.take("nan")) code.bits = hex();
    if (code.op != Op::path) return;
    cursor_.expect("block");
    code.bits = cursor_.number<uint32_t>("elements of a block");
    cursor_.expect("over");
    code.index = cursor_.number<int32_t>("a number of dimensions");
  }

  uint64_t hex() {
    cursor_.peek();
    return cursor_.hex_number();
  }

  uint64_t constant(DType type) {
    if (cursor_.take("bits")) return hex();
    constexpr std::string_view kExpected = "a number of this type, or bits and its bits";
    switch (type) {
      case DType::f32: return to_bits(cursor_.number<float>(kExpected));
      case DType::f64: return to_bits(cursor_.number<double>(kExpected));
      case DType::i8: return to_bits(cursor_.number<int8_t>(kExpected));
      case DType::i16: return to_bits(cursor_.number<int16_t>(kExpected));
      case DType::i32: return to_bits(cursor_.number<int32_t>(kExpected));
      case DType::i64: return to_bits(cursor_.number<int64_t>(kExpected));
      case DType::u8:
      case DType::boolean: return to_bits(cursor_.number<uint8_t>(kExpected));
      default: cursor_.fail("bits and the number's bits");
    }
  }

  Id value_id() {
    cursor_.expect("%");
    return cursor_.number<Id>("the number of a value");
  }

  /// A value of an instruction above.
  Id operand() {
    const size_t start = cursor_.next_position();
    const Id id = value_id();
    if (id < 0 || id >= static_cast<Id>(kernel_.code.size())) {
      cursor_.fail_at(start, "a value that is defined above", fmt::format("%{}", id));
    }
    return id;
  }

  Op op() {
    const size_t start = cursor_.next_position();
    const std::string_view name = cursor_.word("an operation");
    const std::optional<Op> op = op_from_name(name);
    if (!op) cursor_.fail_at(start, "an operation of docs/loop-ir.md", name);
    return *op;
  }

  DType type() {
    const size_t start = cursor_.next_position();
    const std::string_view name = cursor_.word("an element type");
    const std::optional<DType> type = dtype_from_name(name);
    if (!type) cursor_.fail_at(start, "an element type", name);
    return *type;
  }

  template <class Enum, class Table>
  Enum one_of(const Table& table, std::string_view expected) {
    const size_t start = cursor_.next_position();
    const std::string_view word = cursor_.word(expected);
    const auto found = std::ranges::find(table, word);
    if (found == table.end()) cursor_.fail_at(start, expected, word);
    return static_cast<Enum>(found - table.begin());
  }

  template <class Named>
  int32_t named(const std::vector<Named>& list, std::string_view expected) {
    const size_t start = cursor_.next_position();
    const std::string_view name = cursor_.word(expected);
    const auto found = std::ranges::find(list, name, &Named::name);
    if (found == list.end()) cursor_.fail_at(start, expected, name);
    return static_cast<int32_t>(found - list.begin());
  }

  Extent extent() {
    if (cursor_.peek_word().empty()) return {-1, cursor_.number<int64_t>("a number or its name")};
    return {named(kernel_.numbers, "a number"), 0};
  }

  std::vector<Extent> extents() {
    std::vector<Extent> list;
    cursor_.expect("[");
    if (cursor_.take("]")) return list;
    do list.push_back(extent());
    while (cursor_.take(","));
    cursor_.expect("]");
    return list;
  }

  text::TextCursor cursor_;
  Kernel kernel_;
};

}  // namespace

Kernel parse_kernel(std::string_view text, const std::string& origin) {
  return KernelParser(text, origin).parse();
}

}  // namespace antegrad::lower
