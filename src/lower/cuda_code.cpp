#include "lower/cuda_code.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

namespace antegrad::lower {
namespace {

std::string_view unsigned_type(DType type) {
  switch (byte_size(type)) {
    case 1: return "u8";
    case 2: return "u16";
    case 4: return "u32";
    default: return "u64";
  }
}

std::string integral(Op op, DType type, const std::string& a, const std::string& b) {
  const auto here = cuda_register_type(type);
  const auto wide = byte_size(type) == 8 ? "u64" : "u32";
  const auto bits = byte_size(type) * 8 - 1;
  switch (op) {
    case Op::add: return fmt::format("({0})(({1}){2} + ({1}){3})", here, wide, a, b);
    case Op::sub: return fmt::format("({0})(({1}){2} - ({1}){3})", here, wide, a, b);
    case Op::mul: return fmt::format("({0})(({1}){2} * ({1}){3})", here, wide, a, b);
    case Op::neg: return fmt::format("({0})(0 - ({1}){2})", here, wide, a);
    case Op::min: return fmt::format("{0} < {1} ? {0} : {1}", a, b);
    case Op::max: return fmt::format("{0} > {1} ? {0} : {1}", a, b);
    case Op::bit_not: return fmt::format("({0})~{1}", here, a);
    case Op::shl:
      return fmt::format("({0})(({1}){2} << (({3}){4} & {5}))", here, wide, a, unsigned_type(type),
                         b, bits);
    case Op::shr:
      return fmt::format("({0})({1} >> (({2}){3} & {4}))", here, a, unsigned_type(type), b, bits);
    default: return fmt::format("({})({} {} {})", here, a, c_operator(op), b);
  }
}

std::string list_of(const std::vector<std::string>& operands) {
  std::string list;
  for (const auto& operand : operands) list += (list.empty() ? "" : ", ") + operand;
  return list;
}

}  // namespace

std::string_view cuda_register_type(DType type) {
  switch (type) {
    case DType::bf16:
    case DType::f16: return "u16";
    case DType::boolean: return "bool";
    default: return name(type);
  }
}

std::string_view cuda_memory_type(DType type) {
  return type == DType::boolean ? "u8" : cuda_register_type(type);
}

bool is_dense(const Kernel& kernel, const Buffer& buffer) {
  return buffer.strides[lane_dimension(kernel)].is(1);
}

bool is_kept(const Kernel& kernel, int32_t buffer) {
  const Buffer& found = kernel.buffers[buffer];
  if (kernel.space != Space::rows || !found.read || !is_dense(kernel, found)) return false;
  if (has_sums_of_rows(found)) return true;
  const auto loads = [&](const Stage& stage) {
    return std::any_of(
        kernel.code.begin() + stage.begin, kernel.code.begin() + stage.end,
        [&](const Instruction& code) { return code.op == Op::load && code.index == buffer; });
  };
  return std::ranges::count_if(kernel.stages, loads) > 1;
}

size_t count_folds_together(const Kernel& kernel, size_t first) {
  const Id begin = kernel.stages[first].begin;
  size_t end = first;
  for (; end < kernel.stages.size() && kernel.stages[end].kind == StageKind::fold; ++end) {
    const Stage& stage = kernel.stages[end];
    const auto reads_others = [&](const Instruction& code) {
      return std::ranges::any_of(
          code.operands, [&](Id operand) { return operand >= begin && operand < stage.begin; });
    };
    if (std::any_of(kernel.code.begin() + stage.begin, kernel.code.begin() + stage.end,
                    reads_others)) {
      break;
    }
  }
  return end - first;
}

std::string cuda_literal(DType type, uint64_t bits) {
  switch (type) {
    case DType::boolean: return bits != 0 ? "true" : "false";
    case DType::f32: return fmt::format("as<f32>((u32){:#x})", bits);
    case DType::f64: return fmt::format("as<f64>((u64){:#x}ULL)", bits);
    default: return fmt::format("({})(u64){:#x}ULL", cuda_register_type(type), bits);
  }
}

std::string cuda_cast(DType to, DType from, uint64_t nan, const std::string& text) {
  if (from == DType::bf16) return fmt::format("as<f32>((u32){} << 16)", text);
  if (from == DType::f16) return fmt::format("f32_of_f16({})", text);
  if (to == DType::bf16) return fmt::format("bf16_of({}, {:#x})", text, nan);
  if (to == DType::f16) return fmt::format("f16_of({}, {:#x})", text, nan);
  if (to == DType::boolean) return text + " != 0";
  if (!is_floating(from) || is_floating(to)) {
    return fmt::format("({}){}", cuda_register_type(to), text);
  }
  if (byte_size(to) == 8) return fmt::format("truncated<i64>({})", text);
  return fmt::format("({})truncated<i32>({})", cuda_register_type(to), text);
}

std::string cuda_operation(Op op, DType type, const std::vector<std::string>& operands) {
  const std::string& a = operands[0];
  const std::string& b = operands.size() > 1 ? operands[1] : a;
  if (row_of(op).compares) return fmt::format("{} {} {}", a, c_operator(op), b);
  if (type == DType::boolean) {
    return op == Op::bit_not ? "!" + a : fmt::format("{} {} {}", a, c_operator(op), b);
  }
  if (is_floating(type)) return fmt::format("{}_of({})", row_of(op).name, list_of(operands));
  return integral(op, type, a, b);
}

std::string cuda_fold_operation(Op op, DType type, const std::vector<std::string>& operands) {
  const bool has_own = (op == Op::minimum || op == Op::maximum) && is_floating(type);
  return has_own ? fmt::format("fold_{}({})", row_of(op).name, list_of(operands))
                 : cuda_operation(op, type, operands);
}

std::string CudaCode::extent(Extent extent) const {
  if (extent.number < 0) return fmt::format("(i64){}", extent.constant);
  return "n_" + kernel_.numbers[extent.number].name;
}

std::string CudaCode::start_of(const Stage& stage) const {
  const auto code = std::span(kernel_.code).subspan(stage.begin, stage.end - stage.begin);
  const auto accumulator = std::ranges::find(code, Op::accumulator, &Instruction::op);
  return cuda_literal(accumulator->type, accumulator->bits);
}

std::string CudaCode::first(const Buffer& buffer) const {
  switch (kernel_.space) {
    case Space::elements: return "p_" + buffer.name;
    case Space::rows: return fmt::format("{} + {}", segment(buffer), in_row());
    case Space::columns: break;
  }
  if (buffer.strides[1].is(0)) return "p_" + buffer.name;
  return fmt::format("p_{} + j * {}", buffer.name, extent(buffer.strides[1]));
}

/// Where the elements of a row, or of a segment of it, begin.
std::string CudaCode::segment(const Buffer& buffer) const {
  if (kernel_.inner == 1 || buffer.strides[lane_ - 1].is(0)) return "p_" + buffer.name;
  return fmt::format("p_{} + i{} * {}", buffer.name, lane_ - 1, extent(buffer.strides[lane_ - 1]));
}

std::string CudaCode::place(const Buffer& buffer) const {
  const bool rows = kernel_.space == Space::rows;
  const std::string start = rows ? segment(buffer) : first(buffer);
  if (stride(buffer).is(0)) return fmt::format("({})", start);
  return fmt::format("({} + {} * {})", start, rows ? "(" + in_row() + " + k)" : "k",
                     extent(stride(buffer)));
}

std::string CudaCode::index(int32_t dimension) const {
  if (kernel_.space == Space::rows) {
    return static_cast<size_t>(dimension) == lane_ ? in_row() + " + k"
                                                   : fmt::format("i{}", dimension);
  }
  if (static_cast<size_t>(dimension) == lane_) return fmt::format("i{} + k", dimension);
  return kernel_.space == Space::columns ? "j" : fmt::format("i{}", dimension);
}

std::string CudaCode::value(Id id) const {
  const bool kept = id < begin_ || kernel_.stages[stage_of_[id]].kind == StageKind::row;
  return fmt::format("{}{}", kept ? "r" : "v", id);
}

void CudaCode::print_loads(const Stage& stage) {
  for (Id id = stage.begin; id < stage.end; ++id) {
    const Instruction& code = kernel_.code[id];
    if (code.op != Op::load && code.op != Op::store) continue;
    const Buffer& buffer = kernel_.buffers[code.index];
    const auto type = cuda_memory_type(buffer.type);
    if (code.op == Op::store) {
      if (is_dense(kernel_, buffer)) out_.line("Lanes<{}, V> m{};", type, id);
    } else if (keeps(code.index)) {
      out_.line("const Lanes<{}, V> m{} = k_{}[c];", type, id, buffer.name);
    } else if (has_sums_of_rows(buffer)) {
      out_.line("Lanes<{}, V> m{} = {{}};", type, id);
      out_.line("if (!first) m{} = *(const Lanes<{}, V>*)({});", id, type, this->first(buffer));
    } else if (is_dense(kernel_, buffer)) {
      out_.line("const Lanes<{0}, V> m{1} = *(const Lanes<{0}, V>*)({2});", type, id,
                this->first(buffer));
    } else if (stride(buffer).is(0)) {
      out_.line("const {} m{} = *{};", type, id, place(buffer));
    }
  }
}

void CudaCode::print_stores(const Stage& stage) {
  for (Id id = stage.begin; id < stage.end; ++id) {
    const Instruction& code = kernel_.code[id];
    if (code.op != Op::store) continue;
    const Buffer& buffer = kernel_.buffers[code.index];
    if (!is_dense(kernel_, buffer)) continue;
    if (keeps(code.index) && has_sums_of_rows(buffer)) {
      out_.line("k_{}[c] = m{};", buffer.name, id);
    } else {
      out_.line("*(Lanes<{}, V>*)({}) = m{};", cuda_memory_type(buffer.type), this->first(buffer),
                id);
    }
  }
}

/// V elements of stages that follow each other.
void CudaCode::print_lanes(std::span<const Stage> stages) {
  begin_ = stages.front().begin;
  for (const Stage& stage : stages) print_loads(stage);
  const bool columns = kernel_.space == Space::columns;
  const auto adds_all = [&](const Stage& stage) {
    return !columns && stage.kind == StageKind::fold && stage.fold.order != Order::lanes;
  };
  for (const Stage& stage : stages) {
    if (adds_all(stage)) out_.line("{} a{}[V];", name(type_of_fold(stage)), stage.end - 1);
  }
  out_.line("#pragma unroll");
  out_.open("for (int k = 0; k < V; k++)");
  for (const Stage& stage : stages) {
    for (Id id = stage.begin; id < stage.end; ++id) print_instruction(id);
    if (stage.kind != StageKind::fold) continue;
    const std::string next = value(stage.fold.value);
    if (stage.fold.order == Order::lanes) {
      out_.line("r{}{} = {};", stage.end - 1, columns ? "[k]" : "", next);
    } else if (columns) {
      out_.line("s{}[k].add({});", stage.end - 1, next);
    } else {
      out_.line("a{}[k] = {};", stage.end - 1, next);
    }
  }
  out_.close();
  for (const Stage& stage : stages) {
    if (adds_all(stage)) out_.line("s{0}.add_all(a{0});", stage.end - 1);
  }
  for (const Stage& stage : stages) print_stores(stage);
}

void CudaCode::print_instruction(Id id) {
  const Instruction& code = kernel_.code[id];
  if (code.op == Op::result) return;
  if (code.op != Op::store) {
    out_.line("const {} v{} = {};", cuda_register_type(code.type), id,
              expression(id, /*row=*/false));
    return;
  }
  const Buffer& buffer = kernel_.buffers[code.index];
  if (is_dense(kernel_, buffer)) {
    out_.line("m{}.at[k] = {};", id, value(code.operands[0]));
  } else {
    out_.line("*{} = {};", place(buffer), value(code.operands[0]));
  }
}

/// `row`: in a stage that runs once.
std::string CudaCode::expression(Id id, bool row) const {
  const Instruction& code = kernel_.code[id];
  std::vector<std::string> operands;
  for (const Id operand : code.operands) operands.push_back(value(operand));
  const auto of_memory = [&](const std::string& loaded) {
    return code.type == DType::boolean ? loaded + " != 0" : loaded;
  };
  const auto start = [&](const Buffer& buffer) { return row ? "p_" + buffer.name : place(buffer); };
  switch (code.op) {
    case Op::constant: return cuda_literal(code.type, code.bits);
    case Op::number: return "n_" + kernel_.numbers[code.index].name;
    case Op::index: return row ? fmt::format("i{}", code.index) : index(code.index);
    case Op::accumulator:
      return fmt::format("r{}{}", kernel_.stages[stage_of_[id]].end - 1,
                         kernel_.space == Space::columns ? "[k]" : "");
    case Op::load: {
      const Buffer& buffer = kernel_.buffers[code.index];
      if (row) return of_memory("*" + start(buffer));
      if (is_dense(kernel_, buffer)) return of_memory(fmt::format("m{}.at[k]", id));
      if (stride(buffer).is(0)) return of_memory(fmt::format("m{}", id));
      return of_memory("*" + place(buffer));
    }
    case Op::gather: {
      const Buffer& buffer = kernel_.buffers[code.index];
      return of_memory(
          fmt::format("*({} + {} * {})", start(buffer), operands[0], extent(buffer.gather)));
    }
    case Op::cast:
      return cuda_cast(code.type, kernel_.code[code.operands[0]].type, code.bits, operands[0]);
    case Op::bitcast: return fmt::format("as<{}>({})", cuda_register_type(code.type), operands[0]);
    case Op::select: return fmt::format("{} ? {} : {}", operands[0], operands[1], operands[2]);
    case Op::call:
      return fmt::format("{}({})", kernel_.functions[code.index].symbol, list_of(operands));
    default: {
      const auto is_partial = [&](Id operand) {
        return kernel_.code[operand].op == Op::accumulator;
      };
      const bool folds = std::ranges::any_of(code.operands, is_partial);
      return (folds ? cuda_fold_operation : cuda_operation)(
          code.op, kernel_.code[code.operands[0]].type, operands);
    }
  }
}

}  // namespace antegrad::lower
