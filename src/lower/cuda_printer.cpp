#include "lower/cuda_printer.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "lower/c_code.h"
#include "lower/cuda_head.h"

namespace antegrad::lower {
namespace {

/// Of a value in a register. Halves are bits.
std::string_view register_type(DType type) {
  switch (type) {
    case DType::bf16:
    case DType::f16: return "u16";
    case DType::boolean: return "bool";
    default: return name(type);
  }
}

std::string_view memory_type(DType type) {
  return type == DType::boolean ? "u8" : register_type(type);
}

std::string_view unsigned_type(DType type) {
  switch (byte_size(type)) {
    case 1: return "u8";
    case 2: return "u16";
    case 4: return "u32";
    default: return "u64";
  }
}

bool is_dense(const Kernel& kernel, const Buffer& buffer) {
  return buffer.strides[lane_dimension(kernel)].is(1);
}

class CudaKernel {
 public:
  explicit CudaKernel(const Kernel& kernel)
      : kernel_(kernel), lane_(static_cast<size_t>(lane_dimension(kernel))) {
    for (size_t i = 0; i < kernel.stages.size(); ++i) {
      const Stage& stage = kernel.stages[i];
      for (Id id = stage.begin; id < stage.end; ++id) stage_of_.push_back(static_cast<int32_t>(i));
    }
  }

  std::string print() {
    const size_t words = kernel_.buffers.size() + kernel_.numbers.size() + 1;
    out_.line("");
    out_.line("template <int V>");
    out_.open("__device__ void run(const Words<{}>& words)", words);
    print_arguments();
    kernel_.space == Space::elements ? print_elements() : print_rows();
    out_.close();
    out_.line("");
    out_.open("extern \"C\" __global__ void __launch_bounds__({}) {}(const Words<{}> words)",
              kMostThreads, kernel_.name, words);
    print_choice();
    out_.close();
    return std::string(kCudaHead) + out_.text();
  }

 private:
  std::string extent(Extent extent) const {
    if (extent.number < 0) return fmt::format("(i64){}", extent.constant);
    return "n_" + kernel_.numbers[extent.number].name;
  }
  std::string size(size_t d) const { return extent(kernel_.sizes[d]); }

  void print_arguments() {
    const size_t first = kernel_.buffers.size();
    for (size_t i = 0; i < kernel_.numbers.size(); ++i) {
      const Number& number = kernel_.numbers[i];
      if (number.type == DType::i64) {
        out_.line("const i64 n_{} = (i64)words.at[{}];", number.name, first + i);
      } else {
        out_.line("const {0} n_{1} = ({0})as<f64>(words.at[{2}]);", name(number.type), number.name,
                  first + i);
      }
    }
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[i];
      const auto type = memory_type(buffer.type);
      std::string start = buffer.offset.is(0) ? "" : " + " + extent(buffer.offset);
      if (!buffer.thread.is(0)) start += " + blockIdx.x * " + extent(buffer.thread);
      out_.line("{0}* const b_{1} = ({0}*)words.at[{2}]{3};", type, buffer.name, i, start);
    }
    out_.line("const i64 count = (i64)words.at[{}];", first + kernel_.numbers.size());
  }

  /// Threads take several elements at once where all that lies densely is aligned.
  void print_choice() {
    const int32_t lanes = cuda_lanes(kernel_);
    if (lanes == 1) return out_.line("run<1>(words);");
    print_arguments();
    out_.line("(void)count;");
    std::string aligned = fmt::format("{} % {} == 0", size(lane_), lanes);
    for (const Buffer& buffer : kernel_.buffers) {
      if (!is_dense(kernel_, buffer)) continue;
      const int64_t bytes = std::min<int64_t>(16, lanes * byte_size(buffer.type));
      aligned += fmt::format(" && (u64)b_{} % {} == 0", buffer.name, bytes);
      for (size_t d = 0; d < buffer.strides.size(); ++d) {
        if (d == lane_ || buffer.strides[d].is(0)) continue;
        aligned += fmt::format(" && {} % {} == 0", extent(buffer.strides[d]), lanes);
      }
    }
    out_.open("if ({})", aligned);
    out_.line("run<{}>(words);", lanes);
    out_.close();
    out_.open("else");
    out_.line("run<1>(words);");
    out_.close();
  }

  /// Addresses at indices i0, i1, ... of the first `count` dimensions.
  void print_pointers(size_t count) {
    for (const Buffer& buffer : kernel_.buffers) {
      std::string place;
      for (size_t d = 0; d < count; ++d) {
        if (buffer.strides[d].is(0)) continue;
        place += buffer.strides[d].is(1) ? fmt::format(" + i{}", d)
                                         : fmt::format(" + i{} * {}", d, extent(buffer.strides[d]));
      }
      out_.line("{0}* const p_{1} = b_{1}{2};", memory_type(buffer.type), buffer.name, place);
    }
  }

  void print_indices(size_t count) {
    for (size_t d = count; d-- > 1;) {
      out_.line("const i64 i{0} = rest % (u32){1}; rest /= (u32){1};", d, size(d));
    }
    if (count > 0) out_.line("const i64 i0 = rest;");
  }

  void print_elements() {
    out_.line("const u32 all = gridDim.x * blockDim.x * V;");
    out_.open("for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) * V; at < count; at += all)");
    out_.line("u32 rest = at;");
    print_indices(kernel_.sizes.size());
    print_pointers(kernel_.sizes.size());
    print_lanes(kernel_.stages[0]);
    out_.close();
  }

  void print_rows() {
    out_.line("const i64 n = {};", size(lane_));
    out_.open("for (i64 row = blockIdx.x; row < count; row += gridDim.x)");
    out_.line("u32 rest = (u32)row;");
    print_indices(lane_);
    print_pointers(lane_);
    for (const Stage& stage : kernel_.stages) {
      present_ = stage_of_[stage.begin];
      switch (stage.kind) {
        case StageKind::each: print_each(stage); break;
        case StageKind::row: print_row(stage); break;
        case StageKind::fold: print_fold(stage); break;
      }
      // The next stage, or row, may write what others of the block read in this one, and the
      // reverse.
      out_.line("__syncthreads();");
    }
    out_.close();
  }

  void print_each(const Stage& stage) {
    out_.open("for (i64 j = threadIdx.x * V; j < n; j += blockDim.x * V)");
    print_lanes(stage);
    out_.close();
  }

  /// All threads compute it; one of them stores.
  void print_row(const Stage& stage) {
    std::vector<Id> stores;
    for (Id id = stage.begin; id < stage.end; ++id) {
      if (kernel_.code[id].op == Op::store) {
        stores.push_back(id);
      } else {
        out_.line("const {} r{} = {};", register_type(kernel_.code[id].type), id,
                  expression(id, /*row=*/true));
      }
    }
    if (stores.empty()) return;
    out_.line("__syncthreads();");  // all have loaded
    out_.open("if (threadIdx.x == 0)");
    for (const Id id : stores) {
      const Instruction& code = kernel_.code[id];
      out_.line("*p_{} = {};", kernel_.buffers[code.index].name, value(code.operands[0]));
    }
    out_.close();
  }

  void print_fold(const Stage& stage) {
    const Id result = stage.end - 1;
    const Fold& fold = stage.fold;
    const DType type = kernel_.code[fold.value].type;
    const bool adds = fold.order != Order::lanes;
    if (adds) {
      out_.line("Sum<{}> s{};", name(type), result);
    } else {
      out_.line("{} r{} = {};", name(type), result, start_of(stage));
    }
    out_.open("for (i64 j = threadIdx.x * V; j < n; j += blockDim.x * V)");
    print_lanes(stage);
    out_.close();
    if (adds) return out_.line("const {0} r{1} = s{1}.of_block();", name(type), result);
    out_.line("r{0} = reduced(r{0}, [](const {1} a, const {1} b) {{ return {2}; }});", result,
              name(type), operation(fold.combine, type, {"a", "b"}));
  }

  std::string start_of(const Stage& stage) const {
    const auto code = std::span(kernel_.code).subspan(stage.begin, stage.end - stage.begin);
    const auto accumulator = std::ranges::find(code, Op::accumulator, &Instruction::op);
    return literal(accumulator->type, accumulator->bits);
  }

  /// V elements: at the addresses p_NAME, in rows from j on.
  void print_lanes(const Stage& stage) {
    present_ = stage_of_[stage.begin];
    const std::string from = kernel_.space == Space::elements ? "" : " + j";
    for (Id id = stage.begin; id < stage.end; ++id) {
      const Instruction& code = kernel_.code[id];
      if (code.op != Op::load && code.op != Op::store) continue;
      const Buffer& buffer = kernel_.buffers[code.index];
      const auto type = memory_type(buffer.type);
      if (code.op == Op::store) {
        if (is_dense(kernel_, buffer)) out_.line("Lanes<{}, V> m{};", type, id);
      } else if (is_dense(kernel_, buffer)) {
        out_.line("const Lanes<{0}, V> m{1} = *(const Lanes<{0}, V>*)(p_{2}{3});", type, id,
                  buffer.name, from);
      } else if (stride(buffer).is(0)) {
        out_.line("const {} m{} = *p_{};", type, id, buffer.name);
      }
    }
    out_.line("#pragma unroll");
    out_.open("for (int k = 0; k < V; k++)");
    for (Id id = stage.begin; id < stage.end; ++id) print_instruction(id);
    if (stage.kind == StageKind::fold) {
      const std::string next = value(stage.fold.value);
      if (stage.fold.order == Order::lanes) {
        out_.line("r{} = {};", stage.end - 1, next);
      } else {
        out_.line("s{}.add({});", stage.end - 1, next);
      }
    }
    out_.close();
    for (Id id = stage.begin; id < stage.end; ++id) {
      const Instruction& code = kernel_.code[id];
      if (code.op != Op::store) continue;
      const Buffer& buffer = kernel_.buffers[code.index];
      if (!is_dense(kernel_, buffer)) continue;
      out_.line("*(Lanes<{}, V>*)(p_{}{}) = m{};", memory_type(buffer.type), buffer.name, from, id);
    }
  }

  Extent stride(const Buffer& buffer) const { return buffer.strides[lane_]; }

  /// What lies V elements apart, in lane k.
  std::string place(const Buffer& buffer) const {
    const std::string lane = kernel_.space == Space::elements ? "k" : "(j + k)";
    if (stride(buffer).is(0)) return "p_" + buffer.name;
    return fmt::format("(p_{} + {} * {})", buffer.name, lane, extent(stride(buffer)));
  }

  void print_instruction(Id id) {
    const Instruction& code = kernel_.code[id];
    if (code.op == Op::result) return;
    if (code.op != Op::store) {
      out_.line("const {} v{} = {};", register_type(code.type), id, expression(id, /*row=*/false));
      return;
    }
    const Buffer& buffer = kernel_.buffers[code.index];
    if (is_dense(kernel_, buffer)) {
      out_.line("m{}.at[k] = {};", id, value(code.operands[0]));
    } else {
      out_.line("*{} = {};", place(buffer), value(code.operands[0]));
    }
  }

  std::string value(Id id) const {
    const bool kept =
        stage_of_[id] != present_ || kernel_.stages[stage_of_[id]].kind == StageKind::row;
    return fmt::format("{}{}", kept ? "r" : "v", id);
  }

  static std::string literal(DType type, uint64_t bits) {
    switch (type) {
      case DType::boolean: return bits != 0 ? "true" : "false";
      case DType::f32: return fmt::format("as<f32>((u32){:#x})", bits);
      case DType::f64: return fmt::format("as<f64>((u64){:#x}ULL)", bits);
      default: return fmt::format("({})(u64){:#x}ULL", register_type(type), bits);
    }
  }

  /// `row`: in a stage that runs once.
  std::string expression(Id id, bool row) const {
    const Instruction& code = kernel_.code[id];
    std::vector<std::string> operands;
    for (const Id operand : code.operands) operands.push_back(value(operand));
    switch (code.op) {
      case Op::constant: return literal(code.type, code.bits);
      case Op::number: return "n_" + kernel_.numbers[code.index].name;
      case Op::index: return index(code.index);
      case Op::accumulator: return fmt::format("r{}", fold_of(id).end - 1);
      case Op::load: {
        const Buffer& buffer = kernel_.buffers[code.index];
        std::string loaded = is_dense(kernel_, buffer)      ? fmt::format("m{}.at[k]", id)
                             : stride(buffer).is(0) && !row ? fmt::format("m{}", id)
                                                            : "*" + place(buffer);
        return code.type == DType::boolean ? loaded + " != 0" : loaded;
      }
      case Op::gather: {
        const Buffer& buffer = kernel_.buffers[code.index];
        const std::string loaded =
            fmt::format("*({} + {} * {})", place(buffer), operands[0], extent(buffer.gather));
        return code.type == DType::boolean ? loaded + " != 0" : loaded;
      }
      case Op::cast:
        return cast(code.type, kernel_.code[code.operands[0]].type, code.bits, operands[0]);
      case Op::bitcast: return fmt::format("as<{}>({})", register_type(code.type), operands[0]);
      case Op::select: return fmt::format("{} ? {} : {}", operands[0], operands[1], operands[2]);
      case Op::call: {
        std::string arguments;
        for (const auto& operand : operands) {
          arguments += (arguments.empty() ? "" : ", ") + operand;
        }
        return fmt::format("{}({})", kernel_.functions[code.index].symbol, arguments);
      }
      default: return operation(code.op, kernel_.code[code.operands[0]].type, operands);
    }
  }

  const Stage& fold_of(Id id) const { return kernel_.stages[stage_of_[id]]; }

  std::string index(int32_t dimension) const {
    if (static_cast<size_t>(dimension) != lane_) return fmt::format("i{}", dimension);
    return kernel_.space == Space::elements ? fmt::format("i{} + k", dimension) : "j + k";
  }

  static std::string cast(DType to, DType from, uint64_t nan, const std::string& text) {
    if (from == DType::bf16) return fmt::format("as<f32>((u32){} << 16)", text);
    if (from == DType::f16) return fmt::format("f32_of_f16({})", text);
    if (to == DType::bf16) return fmt::format("bf16_of({}, {:#x})", text, nan);
    if (to == DType::f16) return fmt::format("f16_of({}, {:#x})", text, nan);
    if (to == DType::boolean) return text + " != 0";
    if (!is_floating(from) || is_floating(to)) {
      return fmt::format("({}){}", register_type(to), text);
    }
    if (byte_size(to) == 8) return fmt::format("truncated<i64>({})", text);
    return fmt::format("({})truncated<i32>({})", register_type(to), text);
  }

  static std::string operation(Op op, DType type, const std::vector<std::string>& operands) {
    const std::string& a = operands[0];
    const std::string& b = operands.size() > 1 ? operands[1] : a;
    if (row_of(op).compares) return fmt::format("{} {} {}", a, c_operator(op), b);
    if (type == DType::boolean) {
      return op == Op::bit_not ? "!" + a : fmt::format("{} {} {}", a, c_operator(op), b);
    }
    if (is_floating(type)) {
      std::string arguments;
      for (const auto& operand : operands) arguments += (arguments.empty() ? "" : ", ") + operand;
      return fmt::format("{}_of({})", row_of(op).name, arguments);
    }
    return integral(op, type, a, b);
  }

  static std::string integral(Op op, DType type, const std::string& a, const std::string& b) {
    const auto here = register_type(type);
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
        return fmt::format("({0})(({1}){2} << (({3}){4} & {5}))", here, wide, a,
                           unsigned_type(type), b, bits);
      case Op::shr:
        return fmt::format("({0})({1} >> (({2}){3} & {4}))", here, a, unsigned_type(type), b, bits);
      default: return fmt::format("({})({} {} {})", here, a, c_operator(op), b);
    }
  }

 public:
  static constexpr int32_t kMostThreads = 1024;

 private:
  const Kernel& kernel_;
  const size_t lane_;
  std::vector<int32_t> stage_of_;  // by instruction
  int32_t present_ = 0;            // the stage that is printed
  CLines out_;
};

/// Threads of a block over elements, and blocks that fill a GPU: 16 for each of its 132 processors.
constexpr int32_t kThreads = 256;
constexpr int64_t kBlocks = 2112;
/// Of rows, that take one after the other. Those with sums have a row of memory each, which is read
/// and written for each of their rows: 4 for each multiprocessor.
constexpr int64_t kBlocksOfRows = int64_t{1} << 20;
constexpr int64_t kBlocksWithSums = 528;

bool is_of_block(const Buffer& buffer) { return !buffer.thread.is(0); }

}  // namespace

std::string_view why_not_cuda(const Kernel& kernel) {
  if (kernel.space == Space::columns) return "no code for GPUs adds over columns yet";
  if (kernel.inner != 1) return "no code for GPUs reduces channels yet";
  for (const Stage& stage : kernel.stages) {
    if (stage.kind != StageKind::fold) continue;
    const Order order = stage.fold.order;
    if (order != Order::lanes && order != Order::pairwise) {
      return "no code for GPUs reduces in this order";
    }
    if (stage.fold.segments) return "no code for GPUs reduces channels yet";
  }
  const bool has_sums = std::ranges::any_of(kernel.buffers, is_of_block);
  if (has_sums && kernel.space != Space::rows) return "no code for GPUs has sums of each thread";
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    for (Id id = stage.begin; id < stage.end; ++id) {
      const Instruction& code = kernel.code[id];
      if (code.op == Op::call) {
        const Function& function = kernel.functions[code.index];
        if (function.form != CallForm::lane || !function.text.empty()) {
          return "it calls a function that GPUs do not have";
        }
      }
      if (code.op == Op::path) return "its elements at the ends of rows have other formulas";
      if (code.op == Op::store && kernel.space == Space::rows && stage.kind != StageKind::row &&
          kernel.buffers[code.index].strides[lane_dimension(kernel)].is(0)) {
        return "all elements of a row are written to one place";
      }
    }
  }
  return "";
}

std::string cuda_source(const Kernel& kernel) {
  AG_CHECK(why_not_cuda(kernel).empty(), "a kernel that has CUDA code");
  return CudaKernel(kernel).print();
}

int32_t cuda_lanes(const Kernel& kernel) {
  constexpr int64_t kBytes = 16, kMost = 8;
  int64_t smallest = kBytes;
  for (const Buffer& buffer : kernel.buffers) {
    if (is_dense(kernel, buffer)) smallest = std::min(smallest, byte_size(buffer.type));
  }
  return static_cast<int32_t>(std::min(kMost, kBytes / smallest));
}

CudaLaunch cuda_launch(const Kernel& kernel, const int64_t* numbers) {
  const int64_t lanes = cuda_lanes(kernel);
  const int64_t parallel = parallel_size(kernel, numbers);
  const auto divided = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  if (kernel.space == Space::elements) {
    return {std::min(divided(divided(parallel, lanes), kThreads), kBlocks), kThreads};
  }
  constexpr int64_t kWarp = 32;
  const int64_t row = value_of(kernel.sizes.back(), numbers);
  const int64_t threads = divided(divided(row, lanes), kWarp) * kWarp;
  const bool has_sums = std::ranges::any_of(kernel.buffers, is_of_block);
  return {std::min(parallel, has_sums ? kBlocksWithSums : kBlocksOfRows),
          static_cast<int32_t>(std::clamp<int64_t>(threads, kWarp, CudaKernel::kMostThreads))};
}

}  // namespace antegrad::lower
