// Prints reductions in a space of columns: lanes are columns, and i runs along them. Partial
// results of a strip lie in arrays, so rows are read from one end of a strip to the other.

#include "lower/c_code.h"

namespace antegrad::lower {
namespace {

/// Prints one stage that is a fold.
class CColumns {
 public:
  CColumns(CCode& code, const Stage& stage)
      : code_(code),
        out_(code.out),
        stage_(stage),
        fold_(stage.fold),
        type_(code.kernel.code[stage.fold.value].type),
        lanes_(code.lanes_of(stage)),
        vector_(code.head.vector(type_, lanes_)) {}

  void print() { fold_.order == Order::lanes ? print_lanes() : print_cascade(); }

 private:
  std::string result() const { return fmt::format("r{}", stage_.end - 1); }

  /// What row i of a strip adds to the array `sums`: `update` is = or +=.
  void print_row_of_strip(std::string_view update) {
    out_.line("i64 j = j0;");
    const Copy whole{.lanes = lanes_, .accumulator = "a0", .vectors = code_.vectors_of(stage_)};
    code_.each_vector(whole, "stop", "stop", [&](const Copy& copy) {
      const auto sum = [&](const Copy& part) { return code_.in_strip("sums", vector_, part); };
      for (const Copy& part : copy.parts()) {
        if (copy.whole) code_.print_prefetch(stage_, part);
      }
      if (fold_.order == Order::lanes) out_.line("const {} a0 = {};", vector_, sum(copy));
      code_.print(stage_, copy);
      for (const Copy& part : copy.parts()) {
        out_.line("{} {} {};", sum(part), update, code_.value(fold_.value, part));
      }
    });
  }

  void print_lanes() {
    const int32_t count = fold_.accumulators;
    const std::string element(element_type(type_));
    out_.line("for (i64 l = 0; l < {}; l += {}) *({}m*)({} + l) = {};", count * kColumns, lanes_,
              vector_, result(), code_.literal(type_, code_.start(stage_), lanes_));
    out_.open("for (i64 i = 0; i < {}; i++)", code_.inner_size());
    out_.line("{}* const sums = {} + i % {} * {};", element, result(), count, kColumns);
    print_row_of_strip("=");
    out_.close();
    for (int32_t c = 1; c < count; ++c) {
      const auto at = [&](int32_t accumulator) {
        return fmt::format("*({}m*)({} + {} + l)", vector_, result(), accumulator * kColumns);
      };
      out_.line("for (i64 l = 0; l < stop - j0; l += {}) {} = {};", lanes_, at(0),
                code_.binary(fold_.combine, type_, lanes_, at(0), at(c)));
    }
  }

  // Accumulator c of a column takes the rows c, c + count, ...; then the first one takes the rest.
  // Its four levels lie one after the other, as strips; so do the accumulators within a level.
  void print_cascade() {
    const std::string add = code_.head.add_strip(type_, lanes_), r = result();
    out_.line("const i64 count = at + j0 < blocks_{} ? 1 : {};", fold_.lanes, kCascadeAccumulators);
    out_.line("const i64 part = (stop - j0 + 63) / 64 * 64, size = count * part;");
    out_.line("const i64 m = {}, whole = m / count * count;", code_.inner_size());
    out_.line("const i64 power = {}(m / count), stretch = count << power;",
              code_.head.cascade_power());
    out_.line("for (i64 l = 0; l < {}; l++) __builtin_memset({} + l * {}, 0, size * sizeof *{});",
              kCascadeLevels, r, kColumns, r);
    out_.open("for (i64 from = 0, to;; from = to)");
    out_.open("if (from == whole)");
    out_.line("for (i64 l = 1; l < {0}; l++) {1}({2}, {2} + l * {3}, size);", kCascadeLevels, add,
              r, kColumns);
    out_.close();
    out_.line("if (from == m) break;");
    out_.line("to = from < whole ? smaller(from + stretch, whole) : m;");
    out_.open("for (i64 i = from; i < to; i++)");
    out_.line("{}* const sums = {} + (from < whole ? i % count : 0) * part;", element_type(type_),
              r);
    print_row_of_strip("+=");
    out_.close();
    out_.open("for (i64 l = 1; l < {} && to - from == stretch; l++)", kCascadeLevels);
    out_.line("{0}({1} + l * {2}, {1} + (l - 1) * {2}, size);", add, r, kColumns);
    out_.line("if (to / count & (((1l << power) - 1) << (l * power))) break;");
    out_.close();
    out_.close();
    out_.line("for (i64 c = 1; c < count; c++) {0}({1}, {1} + c * part, part);", add, r);
  }

  CCode& code_;
  CLines& out_;
  const Stage& stage_;
  const Fold& fold_;
  DType type_;
  int32_t lanes_;
  std::string vector_;
};

}  // namespace

void print_fold_of_columns(CCode& code, const Stage& stage) { CColumns(code, stage).print(); }

}  // namespace antegrad::lower
