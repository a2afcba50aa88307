// Prints instructions as C.

#include "lower/c_code.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lower/scalar.h"

namespace antegrad::lower {
namespace {

/// A number that C reads back to the same bits; empty if there is none.
std::string number_text(DType type, uint64_t bits) {
  const auto floating = [&](auto value, const char* suffix) {
    if (!std::isfinite(value)) return std::string();
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text + suffix;
  };
  switch (type) {
    case DType::f32: return floating(from_bits<float>(bits), "f");
    case DType::f64: return floating(from_bits<double>(bits), "");
    case DType::i8: return std::to_string(from_bits<int8_t>(bits));
    case DType::i16: return std::to_string(from_bits<int16_t>(bits));
    case DType::i32: return fmt::format("(i32){:#x}u", bits);
    case DType::i64: return fmt::format("(i64){:#x}ul", bits);
    case DType::boolean: return bits != 0 ? "-1" : "0";
    default: return std::to_string(bits);
  }
}

}  // namespace

std::string_view c_operator(Op op) {
  switch (op) {
    case Op::add: return "+";
    case Op::sub: return "-";
    case Op::mul: return "*";
    case Op::div: return "/";
    case Op::bit_and: return "&";
    case Op::bit_or: return "|";
    case Op::bit_xor: return "^";
    case Op::shl: return "<<";
    case Op::shr: return ">>";
    case Op::eq: return "==";
    case Op::ne: return "!=";
    case Op::lt: return "<";
    case Op::le: return "<=";
    case Op::gt: return ">";
    case Op::ge: return ">=";
    default: return "";
  }
}

std::string CCode::address(const Buffer& buffer, size_t count) const {
  std::string place = "b_" + buffer.name;
  for (size_t d = 0; d < count; ++d) place += term(fmt::format("i{}", d), buffer.strides[d]);
  return place;
}

void CCode::print_pointers(size_t count, const Stage* stage) {
  std::vector<bool> accessed(kernel.buffers.size(), stage == nullptr);
  for (Id id = stage ? stage->begin : 0; stage && id < stage->end; ++id) {
    const Instruction& code = kernel.code[id];
    const bool access = code.op == Op::load || code.op == Op::gather || code.op == Op::store;
    if (access) accessed[code.index] = true;
  }
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    if (!accessed[i]) continue;
    const Buffer& buffer = kernel.buffers[i];
    if (is_turned(static_cast<int32_t>(i))) {
      out.line("{0}* const p_{1} = t_{1} + turn * pitch;", pointee(buffer), buffer.name);
      continue;
    }
    out.line("{}* const p_{} = {};", pointee(buffer), buffer.name, address(buffer, count));
  }
}

std::string CCode::literal(DType type, uint64_t bits, int32_t lanes) {
  const std::string text = number_text(type, bits);
  if (!text.empty()) return fmt::format("{}({})", head.splat(element_type(type), lanes), text);
  const std::string unsigned_element = fmt::format("u{}", byte_size(type) * 8);
  return fmt::format("({}){}({:#x}ul)", head.vector(type, lanes),
                     head.splat(unsigned_element, lanes), bits);
}

std::string CCode::binary(Op op, DType type, int32_t lanes, const std::string& a,
                          const std::string& b) {
  const std::string whole = head.vector(type, lanes);
  if (is_floating(type)) {
    if (op == Op::min || op == Op::max || op == Op::scale) {
      return fmt::format("{}({}, {})", head.arithmetic(op, type, lanes), a, b);
    }
    if (op == Op::minimum || op == Op::maximum) {
      return fmt::format("{}({}, {})", head.extreme(op, type, lanes), a, b);
    }
    return fmt::format("{} {} {}", a, c_operator(op), b);
  }
  if (op == Op::min || op == Op::max) {
    const std::string mask = head.mask(byte_size(type), lanes);
    return fmt::format("{}(({})({} {} {}), {}, {})", head.select(element_type(type), lanes), mask,
                       a, op == Op::min ? "<" : ">", b, a, b);
  }
  // Integers wrap, which C promises for unsigned ones only.
  const std::string bits = head.unsigned_vector(type, lanes);
  if (op == Op::shl || op == Op::shr) {
    return fmt::format("({})({}{} {} ({})({} & {}))", whole,
                       op == Op::shl ? fmt::format("({})", bits) : "", a, c_operator(op),
                       op == Op::shl ? bits : whole, b, byte_size(type) * 8 - 1);
  }
  return fmt::format("({0})(({1}){2} {3} ({1}){4})", whole, bits, a, c_operator(op), b);
}

std::string CCode::resized(std::string text, char sign, int64_t from, int64_t to, int32_t lanes) {
  // Step by step: GCC has no vector code for more than a factor of two.
  while (from != to) {
    from = from < to ? from * 2 : from / 2;
    text = fmt::format("__builtin_convertvector({}, {})", text,
                       head.vector(fmt::format("{}{}", sign, from * 8), lanes));
  }
  return text;
}

std::string CCode::mask_of(Id id, int64_t bytes, const Copy& copy) {
  return resized(value(id, copy), 'i', mask_bytes_[id], bytes, copy.lanes);
}

std::string CCode::logical(const Instruction& code, Id id, const Copy& copy) {
  const auto mask = [&](size_t i) { return mask_of(code.operands[i], mask_bytes_[id], copy); };
  if (code.op == Op::bit_not) return "~" + mask(0);
  if (code.op == Op::select || code.op == Op::path) {
    return fmt::format("{}({}, {}, {})", head.select(mask_element(mask_bytes_[id]), copy.lanes),
                       mask(0), mask(1), mask(2));
  }
  return fmt::format("{} {} {}", mask(0), c_operator(code.op), mask(1));
}

std::string CCode::to_integer(DType to, DType from, int32_t lanes, std::string text) {
  if (is_floating(from)) {
    const DType whole = byte_size(to) < 4 ? DType::i32 : to;
    text = fmt::format("{}({})", head.truncate(from, whole, lanes), text);
    from = whole;
  }
  const char sign = from == DType::u8 ? 'u' : 'i';
  text = resized(std::move(text), sign, byte_size(from), byte_size(to), lanes);
  return fmt::format("({}){}", head.vector(to, lanes), text);
}

std::string CCode::cast(Id id, const Copy& copy) {
  const Instruction& code = kernel.code[id];
  const Id operand = code.operands[0];
  const DType from = kernel.code[operand].type;
  const DType to = code.type;
  std::string a = value(operand, copy);
  const int32_t lanes = copy.lanes;
  if (from == to) return a;
  const Instruction& rounded = kernel.code[operand];
  if (from == DType::bf16 && rounded.op == Op::cast && !crosses_[operand] &&
      recalled_[operand] < 0 && phase_[operand] == copy.phase) {
    // Without a way through 16 bits.
    return fmt::format("{}({})", head.round_wide_bf16(rounded.bits, lanes),
                       value(rounded.operands[0], copy));
  }
  if (from == DType::bf16 || from == DType::f16) {
    return fmt::format("{}({})", head.widen(from, lanes), a);
  }
  if (to == DType::bf16 || to == DType::f16) {
    return fmt::format("{}({})", head.round_half(to, code.bits, lanes), a);
  }
  if (to == DType::boolean) {
    return fmt::format("({})({} != 0)", value_type(id, lanes), a);
  }
  if (from == DType::boolean) {
    const DType same_size = byte_size(to) == 1   ? DType::i8
                            : byte_size(to) == 2 ? DType::i16
                            : byte_size(to) == 4 ? DType::i32
                                                 : DType::i64;
    const std::string mask = mask_of(operand, byte_size(same_size), copy);
    const std::string one =
        literal(to, is_floating(to) ? (to == DType::f32 ? to_bits(1.0F) : to_bits(1.0)) : 1, lanes);
    return fmt::format("({})({} & ({})({}))", head.vector(to, lanes), mask,
                       head.vector(same_size, lanes), one);
  }
  if (!is_floating(to)) return to_integer(to, from, lanes, a);
  if (!is_floating(from) && byte_size(from) < 4) {
    return fmt::format("__builtin_convertvector({}, {})", to_integer(DType::i32, from, lanes, a),
                       head.vector(to, lanes));
  }
  if (from == DType::f32 && to == DType::f64) return widened(a, lanes);
  return fmt::format("__builtin_convertvector({}, {})", a, head.vector(to, lanes));
}

std::string CCode::widened(const std::string& text, int32_t lanes) {
  // GCC has no vector code for the whole of it.
  if (lanes == 8 && head.target().vector_bytes == 64) {
    return fmt::format("__builtin_ia32_cvtps2pd512_mask({}, ({}){{0}}, -1, 4)", text,
                       head.vector(DType::f64, lanes));
  }
  return fmt::format("__builtin_convertvector({}, {})", text, head.vector(DType::f64, lanes));
}

std::string CCode::memory(const Instruction& code, const Copy& copy) const {
  const Buffer& buffer = kernel.buffers[code.index];
  std::string text = "p_" + buffer.name;
  if (columns()) text += term("i", buffer.strides.back());
  return text + term(copy.first(), lane_stride(code.index));
}

void CCode::print_prefetch(const Stage& stage, const Copy& copy) {
  std::set<int32_t> fetched;
  for (Id id = stage.begin; id < stage.end; ++id) {
    const Instruction& code = kernel.code[id];
    if (code.op != Op::load || !fetched.insert(code.index).second) continue;
    const Buffer& buffer = kernel.buffers[code.index];
    const Extent row = buffer.strides.back();
    if (row.is(0) || !buffer.strides[lane_dimension(kernel)].is(1)) continue;
    out.line("__builtin_prefetch(p_{}{} + {});", buffer.name, term("(i + 1)", row), copy.first());
  }
}

void CCode::declare_next_rows() {
  for (const std::vector<int32_t>& buffers : fetched_) {
    for (const int32_t i : buffers) {
      const Buffer& buffer = kernel.buffers[i];
      out.line("const i64 next_{0} = {1}{2} * {3} <= {4} ? {5} : 0;", buffer.name,
               goes_far(buffer) ? fmt::format("!far_{} && ", buffer.name) : "", inner_size(),
               byte_size(buffer.type), kFetchedRow, extent(buffer.strides.end()[-2]));
    }
  }
}

void CCode::print_next_row(const Stage& stage, const Copy& copy) {
  if (!copy.whole || turning_ || columns()) return;
  for (const int32_t i : fetched_[&stage - kernel.stages.data()]) {
    const Buffer& buffer = kernel.buffers[i];
    for (const Copy& part : copy.parts()) {
      out.line("if (next_{0}) __builtin_prefetch(p_{0} + next_{0} + {1}{2});", buffer.name,
               part.first(), buffer.read ? "" : ", 1");
    }
  }
}

std::string CCode::access(Id id, const Copy& copy) {
  const Instruction& code = kernel.code[id];
  const Buffer& buffer = kernel.buffers[code.index];
  const Extent lane = lane_stride(code.index);
  const std::string_view element = element_type(code.type);
  const std::string live = copy.whole ? std::to_string(copy.lanes) : "k";
  const int32_t lanes = copy.lanes;
  std::string place = memory(code, copy);
  std::string text;
  if (code.op == Op::gather && !uniform_[code.operands[0]]) {
    text = fmt::format("{}({}, {}, {}, {}, {})", head.gather(element, lanes), place, extent(lane),
                       extent(buffer.gather), value(code.operands[0], copy), live);
  } else {
    if (code.op == Op::gather) place += term(value(code.operands[0], copy) + "[0]", buffer.gather);
    if (lane.is(0)) {
      text = fmt::format("{}(*({}))", head.splat(element, lanes), place);
    } else if (!lane.is(1)) {
      text = fmt::format("{}({}, {}, {})", head.stride(element, lanes), place, extent(lane), live);
    } else if (copy.whole) {
      text = fmt::format("*(const {}m*)({})", head.vector(element, lanes), place);
    } else {
      text = fmt::format("{}({}, k)", head.part(element, lanes), place);
    }
  }
  if (code.type != DType::boolean) return text;
  return fmt::format("({})({}({}) != 0)", value_type(id, lanes), head.u32_from_u8(lanes), text);
}

void CCode::print_store(const Instruction& code, const Copy& copy) {
  const Buffer& buffer = kernel.buffers[code.index];
  const Extent lane = lane_stride(code.index);
  const std::string_view element = element_type(code.type);
  const std::string place = memory(code, copy);
  const std::string live = copy.whole ? std::to_string(copy.lanes) : "k";
  std::string stored = value(code.operands[0], copy);
  if (code.type == DType::boolean) {
    const std::string mask = mask_of(code.operands[0], 1, copy);
    stored = fmt::format("({})({} & 1)", head.vector(element, copy.lanes), mask);
  }
  if (!columns() && lane.is(0)) {
    out.line("*({}) = ({})[0];", place, stored);
  } else if (!lane.is(1)) {
    out.line("{}({}, {}, {}, {});", head.put_stride(element, copy.lanes), place, extent(lane),
             stored, live);
  } else if (const std::string far = copy.whole && goes_far(buffer) && !is_turned(code.index)
                                         ? head.put_far(element, copy.lanes)
                                         : "";
             !far.empty()) {
    out.line("{}({}, {}, far_{});", far, place, stored, buffer.name);
  } else if (copy.whole) {
    out.line("*({}m*)({}) = {};", head.vector(element, copy.lanes), place, stored);
  } else {
    out.line("{}({}, {}, k);", head.put(element, copy.lanes), place, stored);
  }
}

std::string CCode::call(Id id, const Copy& copy) {
  const Instruction& code = kernel.code[id];
  const Function& function = kernel.functions[code.index];
  std::string arguments;
  for (const Id operand : code.operands) {
    arguments += (arguments.empty() ? "" : ", ") + value(operand, copy);
  }
  const bool once = is_uniform(id) && counts_lanes(function);
  if (counts_lanes(function)) {
    arguments += fmt::format(", {}", once ? "1" : copy.whole ? std::to_string(copy.lanes) : "k");
  }
  std::string text = fmt::format("{}({})", head.call(function, copy.lanes), arguments);
  if (!once) return text;
  return fmt::format("{}({}[0])", head.splat(element_type(code.type), copy.lanes), text);
}

// The index of the first lane. In rows, j counts from the start of the row.
std::string CCode::index_of_lanes(const Instruction& code, const Copy& copy) const {
  return kernel.space == Space::rows ? copy.first()
                                     : fmt::format("i{} + {}", code.index, copy.first());
}

// In 32 bits, by the distance from the first lane. Few vectors have a lane that is equal, so a jump
// takes less time than the comparison.
std::string CCode::lanes_compared(Id id, const Copy& copy) {
  const Instruction& code = kernel.code[id];
  if (code.op == Op::eq) {
    const bool first = is_uniform(code.operands[0]);
    const Instruction& index = kernel.code[code.operands[first ? 1 : 0]];
    const std::string lane = fmt::format("{}[0] - ({})", value(code.operands[first ? 0 : 1], copy),
                                         index_of_lanes(index, copy));
    const std::string type = value_type(id, copy.lanes);
    return fmt::format(
        "__builtin_expect((u64)({0}) < {1}, 0) ? ({2})({3}((i32)({0})) == {4}) : ({2}){{0}}", lane,
        copy.lanes, type, head.splat("i32", copy.lanes), head.lane_numbers("i32", copy.lanes));
  }
  head.define(
      "lane_of",
      R"(// The lane of a vector that has the index x; the nearest one outside, where none has it.
INLINE i32 lane_of(i64 x, i64 first, i64 lanes) {
  return (i32)(x < first ? -1 : x >= first + lanes ? lanes : x - first);
}
)");
  std::string sides[2];
  for (size_t i = 0; i < 2; ++i) {
    const Instruction& other = kernel.code[code.operands[1 - i]];
    sides[i] =
        is_uniform(code.operands[i])
            ? fmt::format("{}(lane_of({}[0], {}, {}))", head.splat("i32", copy.lanes),
                          value(code.operands[i], copy), index_of_lanes(other, copy), copy.lanes)
            : head.lane_numbers("i32", copy.lanes);
  }
  return fmt::format("({})({} {} {})", value_type(id, copy.lanes), sides[0], c_operator(code.op),
                     sides[1]);
}

std::string CCode::expression(Id id, const Copy& copy) {
  const Instruction& code = kernel.code[id];
  const int32_t lanes = copy.lanes;
  const auto operand = [&](size_t i) { return value(code.operands[i], copy); };
  const DType from = code.operands.empty() ? code.type : kernel.code[code.operands[0]].type;
  switch (code.op) {
    case Op::constant:
      if (code.type != DType::boolean) return literal(code.type, code.bits, lanes);
      return fmt::format("{}({})", head.splat(value_element(id), lanes),
                         code.bits != 0 ? "-1" : "0");
    case Op::number:
      return fmt::format("{}(n_{})", head.splat(element_type(code.type), lanes),
                         kernel.numbers[code.index].name);
    case Op::index: {
      const std::string splat = head.splat("i64", lanes);
      if (code.index == lane_dimension(kernel)) {
        return fmt::format("{}({}) + {}", splat, index_of_lanes(code, copy),
                           head.lane_numbers("i64", lanes));
      }
      const bool inner = code.index + 1 == static_cast<int32_t>(kernel.sizes.size());
      return fmt::format("{}({})", splat, inner ? "i" : fmt::format("i{}", code.index));
    }
    case Op::load:
    case Op::gather: return access(id, copy);
    case Op::call: return call(id, copy);
    case Op::cast: return cast(id, copy);
    case Op::bitcast: return fmt::format("({}){}", head.vector(code.type, lanes), operand(0));
    case Op::path: {
      if (!copy.paths) return operand(0);
      const int64_t bytes = code.type == DType::boolean ? mask_bytes_[id] : byte_size(code.type);
      const auto choice = [&](size_t i) {
        return code.type == DType::boolean ? mask_of(code.operands[i], bytes, copy) : operand(i);
      };
      return fmt::format("{}({}(bound_{}_{} - j), {}, {})", head.select(value_element(id), lanes),
                         head.first_lanes(bytes, lanes), code.bits, code.index, choice(0),
                         choice(1));
    }
    case Op::select:
      if (code.type == DType::boolean) return logical(code, id, copy);
      return fmt::format("{}({}, {}, {})", head.select(element_type(code.type), lanes),
                         mask_of(code.operands[0], byte_size(code.type), copy), operand(1),
                         operand(2));
    case Op::fma:
      return fmt::format("{}({}, {}, {})", head.arithmetic(Op::fma, code.type, lanes), operand(0),
                         operand(1), operand(2));
    case Op::neg:
      if (!is_floating(code.type))
        return binary(Op::sub, code.type, lanes, literal(code.type, 0, lanes), operand(0));
      [[fallthrough]];
    case Op::abs: {
      const uint64_t sign = uint64_t{1} << (byte_size(code.type) * 8 - 1);
      return fmt::format("({0})(({1}){2} {3} {4:#x}ul)", head.vector(code.type, lanes),
                         head.unsigned_vector(code.type, lanes), operand(0),
                         code.op == Op::neg ? "^" : "&", code.op == Op::neg ? sign : sign - 1);
    }
    case Op::sqrt:
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round:
      return fmt::format("{}({})", head.arithmetic(code.op, code.type, lanes), operand(0));
    case Op::bit_not:
      return code.type == DType::boolean ? logical(code, id, copy) : "~" + operand(0);
    default: break;
  }
  if (compares_lanes(id)) return lanes_compared(id, copy);
  if (row_of(code.op).compares) {
    return fmt::format("({})({} {} {})", value_type(id, lanes), operand(0), c_operator(code.op),
                       operand(1));
  }
  if (from == DType::boolean) return logical(code, id, copy);
  return binary(code.op, code.type, lanes, operand(0), operand(1));
}

}  // namespace antegrad::lower
