// Prints folds in order for a block of rows: one element after the other, but each lane has a row
// of its own. Square pieces of the rows are transposed on the way. And how buffers that lie across
// rows are transposed: into arrays of a block of rows before its stages, and out of them behind.

#include <algorithm>

#include "lower/c_code.h"
#include "lower/kernel_reach.h"

namespace antegrad::lower {
namespace {

std::string piece(int32_t step, int32_t row) { return fmt::format("x{}_{}", step, row); }

/// Prints one stage that is a fold.
class CRows {
 public:
  CRows(CCode& code, const Stage& stage)
      : code_(code),
        out_(code.out),
        stage_(stage),
        fold_(stage.fold),
        type_(code.kernel.code[stage.fold.value].type),
        lanes_(std::min<int32_t>(
            kRowBlock, code.head.target().vector_bytes / static_cast<int32_t>(byte_size(type_)))),
        vector_(code.head.vector(type_, lanes_)) {}

  void print() {
    out_.open();
    for (int32_t g = 0; g < groups(); ++g) {
      out_.line("{} a{} = {};", vector_, g, code_.literal(type_, code_.start(stage_), lanes_));
    }
    code_.each_segment([&] {
      out_.line("i64 from = 0;");
      out_.open("for (; from + {0} <= n; from += {0})", lanes_);
      print_piece();
      out_.close();
      out_.open("if (from < n)");
      print_accumulators("{0} = {1};");
      print_rest();
      print_accumulators("{1} = {0};");
      out_.close();
    });
    print_accumulators("{0} = {1};");
    out_.close();
  }

 private:
  /// Vectors of rows.
  int32_t groups() const { return kRowBlock / lanes_; }

  std::string kept() const { return fmt::format("s{}", stage_.end - 1); }

  /// Moves the accumulators, {1}, from or to the array of what rows keep, {0}.
  void print_accumulators(std::string_view move) {
    for (int32_t g = 0; g < groups(); ++g) {
      const std::string memory = fmt::format("*({}m*)({} + {})", vector_, kept(), g * lanes_);
      out_.line("{}", fmt::format(fmt::runtime(move), memory, fmt::format("a{}", g)));
    }
  }

  /// As many elements from `from` on as there are lanes, of all rows.
  void print_piece() {
    for (int32_t r = 0; r < kRowBlock; ++r) print_row(r);
    for (int32_t g = 0; g < groups(); ++g) {
      const int32_t step = print_transposed(out_, piece_type(), lanes_, g * lanes_);
      for (int32_t l = 0; l < lanes_; ++l) {
        const std::string a = fmt::format("a{}", g);
        const std::string row = piece(step, g * lanes_ + l);
        out_.line("{} = {};", a,
                  code_.binary(fold_.combine, type_, lanes_, a,
                               widens() ? code_.widened(row, lanes_) : row));
      }
    }
  }

  /// The elements beyond, row by row.
  void print_rest() {
    out_.open("for (i64 i0 = block; i0 <= last; i0++)");
    print_start_of_row(1);
    out_.line("{} acc = {}({}[i0 - block]);", code_.head.vector(type_, 1),
              code_.head.splat(element_type(type_), 1), kept());
    out_.open("for (i64 j = from; j < n; j++)");
    code_.print(stage_, {.lanes = 1, .accumulator = "acc"});
    out_.line("acc = v{};", fold_.value);
    out_.close();
    out_.line("{}[i0 - block] = acc[0];", kept());
    out_.close();
  }

  /// Addresses of row i0 and what it has kept.
  void print_start_of_row(int32_t lanes) {
    code_.print_pointers(static_cast<size_t>(code_.kernel.inner), &stage_);
    const std::vector<bool> needed = code_.needed(stage_, true);
    for (Id id = 0; id < stage_.begin; ++id) {
      if (needed[id]) out_.line("const {0} r{1} = s{1}[i0 - block];", code_.value_element(id), id);
    }
    code_.print_invariants(stage_, lanes);
  }

  /// What row r merges. The last row stands for rows that the block lacks.
  void print_row(int32_t r) {
    out_.line("{} {} = {{0}};", piece_type(), piece(0, r));
    out_.open("{}", stores() ? fmt::format("if (block + {} <= last)", r) : "");
    out_.line("const i64 i0 = smaller(block + {}, last), j = from;", r);
    print_start_of_row(lanes_);
    out_.line("const {} acc = {{0}};", vector_);  // of the code, which is not used
    const Copy copy{.lanes = lanes_, .accumulator = "acc"};
    code_.print(stage_, copy);
    out_.line("{} = {};", piece(0, r), code_.value(transposed(), copy));
    out_.close();
  }

  /// Then no row is computed twice.
  bool stores() const {
    return std::any_of(code_.kernel.code.begin() + stage_.begin,
                       code_.kernel.code.begin() + stage_.end,
                       [](const Instruction& code) { return code.op == Op::store; });
  }

  /// What is merged with the accumulator.
  Id merged() const { return code_.kernel.code[fold_.value].operands[1]; }

  /// Whether it is a value of the loop that is widened, which is done after the transposition.
  bool widens() const {
    const Instruction& code = code_.kernel.code[merged()];
    return code.op == Op::cast && code.type == DType::f64 && code.operands[0] >= stage_.begin &&
           code_.kernel.code[code.operands[0]].type == DType::f32;
  }
  Id transposed() const { return widens() ? code_.kernel.code[merged()].operands[0] : merged(); }
  std::string piece_type() {
    return code_.head.vector(code_.kernel.code[transposed()].type, lanes_);
  }

  CCode& code_;
  CLines& out_;
  const Stage& stage_;
  const Fold& fold_;
  DType type_;
  int32_t lanes_;
  std::string vector_;
};

/// Elements of a row that no row of the arrays has, so that rows do not lie a power of two apart.
constexpr int32_t kGap = 16;

/// A function that transposes a matrix in memory. It moves squares of vectors where the elements
/// have 4 or 8 bytes.
std::string turn(CHead& head, std::string_view element, int64_t bytes) {
  const auto lanes = bytes < 4 ? 1 : static_cast<int32_t>(head.target().vector_bytes / bytes);
  std::string name = fmt::format("turn_{}", element);
  CLines out;
  out.line("// A matrix of lines to one whose lines are its columns; steps are between lines.");
  out.open(
      "static void {0}(const {1}* from, i64 from_step, {1}* to, i64 to_step, i64 lines, "
      "i64 columns)",
      name, element);
  out.line("i64 l = 0;");
  if (lanes > 1) {
    const std::string vector = head.vector(element, lanes);
    out.open("for (; l + {0} <= lines; l += {0})", lanes);
    out.line("i64 c = 0;");
    out.open("for (; c + {0} <= columns; c += {0})", lanes);
    for (int32_t i = 0; i < lanes; ++i) {
      out.line("const {0} x0_{1} = *(const {0}m*)(from + (l + {1}) * from_step + c);", vector, i);
    }
    const int32_t step = print_transposed(out, vector, lanes, 0);
    for (int32_t i = 0; i < lanes; ++i) {
      out.line("*({}m*)(to + (c + {}) * to_step + l) = x{}_{};", vector, i, step, i);
    }
    out.close();
    out.open("for (; c < columns; c++)");
    out.line("for (i64 i = l; i < l + {}; i++) to[c * to_step + i] = from[i * from_step + c];",
             lanes);
    out.close();
    out.close();
  }
  out.open("for (; l < lines; l++)");
  out.line("for (i64 c = 0; c < columns; c++) to[c * to_step + l] = from[l * from_step + c];");
  out.close();
  out.close();
  head.define(name, out.text());
  return name;
}

}  // namespace

int32_t print_transposed(CLines& out, const std::string& vector, int32_t lanes, int32_t first) {
  int32_t step = 0;
  for (int32_t width = 1; width < lanes; width *= 2, ++step) {
    for (int32_t l = 0; l < lanes; ++l) {
      const bool upper = (l & width) != 0;
      const int32_t other = l ^ width;
      std::string order;
      for (int32_t lane = 0; lane < lanes; ++lane) {
        // Of the first of two rows, then of the second.
        const bool second = (lane & width) != 0;
        const int32_t from = upper ? lane | width : lane & ~width;
        order += fmt::format(", {}", second ? lanes + from : from);
      }
      out.line("const {} {} = __builtin_shufflevector({}, {}{});", vector,
               piece(step + 1, first + l), piece(step, first + std::min(l, other)),
               piece(step, first + std::max(l, other)), order);
    }
  }
  return step;
}

void print_fold_across_rows(CCode& code, const Stage& stage) { CRows(code, stage).print(); }

void print_arrays_of_turned(CCode& code) {
  code.out.line("const i64 pitch = n + {};", kGap);
  for (const int32_t i : code.turned()) {
    const Buffer& buffer = code.kernel.buffers[i];
    code.out.line("{} t_{}[{}] __attribute__((aligned(64)));", element_type(buffer.type),
                  buffer.name, kTurnedRows * (kTurnedElements + kGap));
  }
}

void print_turns(CCode& code, bool written) {
  for (const int32_t i : code.turned()) {
    const Buffer& buffer = code.kernel.buffers[i];
    if (buffer.written != written) continue;
    const auto function = turn(code.head, element_type(buffer.type), byte_size(buffer.type));
    const std::string place = code.address(buffer, code.kernel.sizes.size() - 1);
    const std::string step = code.extent(buffer.strides.back());
    if (written) {
      code.out.line("{}(t_{}, pitch, {}, {}, rows, n);", function, buffer.name, place, step);
    } else {
      code.out.line("{}({}, {}, t_{}, pitch, n, rows);", function, place, step, buffer.name);
    }
  }
}

}  // namespace antegrad::lower
