#include "lower/text.h"

#include <cmath>

#include <fmt/format.h>

#include "graph/text_quote.h"
#include "lower/scalar.h"
#include "lower/words.h"

namespace antegrad::lower {
namespace {

template <class Table, class Enum>
std::string_view word(const Table& table, Enum value) {
  return table[static_cast<size_t>(value)];
}

std::string extent_text(const Kernel& kernel, Extent extent) {
  if (extent.number < 0) return std::to_string(extent.constant);
  return kernel.numbers[extent.number].name;
}

std::string list_text(const Kernel& kernel, const std::vector<Extent>& extents) {
  std::string text = "[";
  for (const Extent extent : extents) {
    if (text.size() > 1) text += ", ";
    text += extent_text(kernel, extent);
  }
  return text + "]";
}

template <class T>
std::string float_text(uint64_t bits) {
  const T value = from_bits<T>(bits);
  return std::isfinite(value) ? fmt::format("{}", value) : fmt::format("bits {:x}", bits);
}

std::string constant_text(DType type, uint64_t bits) {
  switch (type) {
    case DType::f32: return float_text<float>(bits);
    case DType::f64: return float_text<double>(bits);
    case DType::f16:
    case DType::bf16: return fmt::format("bits {:x}", bits);
    case DType::i8: return std::to_string(static_cast<int8_t>(bits));
    case DType::i16: return std::to_string(static_cast<int16_t>(bits));
    case DType::i32: return std::to_string(static_cast<int32_t>(bits));
    default: return std::to_string(static_cast<int64_t>(bits));
  }
}

std::string function_text(const Function& function) {
  std::string text = fmt::format("function {} {} {} {}", function.name, name(function.type),
                                 function.arity, word(words::kCallForms, function.form));
  if (function.form == CallForm::vector) text += fmt::format(" {}", function.lanes);
  if (function.form == CallForm::strip) text += fmt::format(" {}", function.mode);
  text += " " + function.symbol;
  if (!function.text.empty()) text += " " + text::quoted(function.text);
  return text;
}

std::string buffer_text(const Kernel& kernel, const Buffer& buffer) {
  std::string text = fmt::format("buffer {} {}", buffer.name, name(buffer.type));
  if (buffer.read) text += " read";
  if (buffer.written) text += " write";
  text += " " + list_text(kernel, buffer.strides);
  const auto term = [&](const char* word, Extent extent) {
    if (!extent.is(0)) text += fmt::format(" {} {}", word, extent_text(kernel, extent));
  };
  term("offset", buffer.offset);
  term("thread", buffer.thread);
  term("gather", buffer.gather);
  return text;
}

/// What stands between an operation's type and its operands.
std::string subject_text(const Kernel& kernel, const Instruction& code) {
  switch (code.op) {
    case Op::constant:
    case Op::accumulator: return " " + constant_text(code.type, code.bits);
    case Op::number: return " " + kernel.numbers[code.index].name;
    case Op::index: return fmt::format(" {}", code.index);
    case Op::load:
    case Op::gather:
    case Op::store: return " " + kernel.buffers[code.index].name;
    case Op::call: return " " + kernel.functions[code.index].name;
    default: return "";
  }
}

/// What follows the operands.
std::string detail_text(const Instruction& code) {
  if (code.op == Op::path) return fmt::format(" block {} over {}", code.bits, code.index);
  if (code.op == Op::cast && code.bits != 0) return fmt::format(" nan {:x}", code.bits);
  return "";
}

std::string stage_text(const Stage& stage) {
  const Fold& fold = stage.fold;
  std::string text(word(words::kStages, stage.kind));
  if (stage.kind != StageKind::fold) return text;
  text += fmt::format(" {} {} {}", word(words::kOrders, fold.order), fold.lanes, fold.accumulators);
  if (fold.order == Order::moments && fold.fused != Fused::vectors) {
    text += fmt::format(" fused {}", word(words::kFused, fold.fused));
  }
  if (fold.order == Order::blocks) return text + fmt::format(" {}", row_of(fold.combine).name);
  if (fold.order != Order::lanes && fold.order != Order::vectors) return text;
  text += fmt::format(" {}", word(words::kMerges, fold.merge));
  if (fold.order == Order::lanes) text += fmt::format(" {}", row_of(fold.combine).name);
  return fold.segments ? text + " segments" : text;
}

}  // namespace

std::string instruction_text(const Kernel& kernel, Id id) {
  const Instruction& code = kernel.code[id];
  std::string text;
  if (code.op != Op::store) text = fmt::format("%{} = ", id);
  text += fmt::format("{} {}{}", row_of(code.op).name, name(code.type), subject_text(kernel, code));
  for (const Id operand : code.operands) text += fmt::format(" %{}", operand);
  return text + detail_text(code);
}

std::string to_text(const Kernel& kernel) {
  std::string text = fmt::format("{} {} {}\n", words::kMagic, words::kVersion, kernel.name);
  for (const Number& number : kernel.numbers) {
    text += fmt::format("number {} {}\n", number.name, name(number.type));
  }
  for (const Function& function : kernel.functions) text += function_text(function) + "\n";
  for (const Buffer& buffer : kernel.buffers) text += buffer_text(kernel, buffer) + "\n";
  text += fmt::format("{} {}", word(words::kSpaces, kernel.space), list_text(kernel, kernel.sizes));
  text += kernel.inner == 1 ? "\n" : fmt::format(" inner {}\n", kernel.inner);
  for (const Stage& stage : kernel.stages) {
    text += stage_text(stage) + "\n";
    bool yielded = stage.kind != StageKind::fold;
    for (Id id = stage.begin; id < stage.end; ++id) {
      if (!yielded && kernel.code[id].op == Op::result) {
        text += fmt::format("  yield %{}\n", stage.fold.value);
        yielded = true;
      }
      text += "  " + instruction_text(kernel, id) + "\n";
    }
  }
  return text;
}

}  // namespace antegrad::lower
