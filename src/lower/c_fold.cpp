// Prints reductions, each in its stated order.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lower/c_code.h"
#include "lower/scalar.h"

namespace antegrad::lower {
namespace {

bool is_nan(DType type, uint64_t bits) {
  return type == DType::f64 ? std::isnan(from_bits<double>(bits))
                            : std::isnan(from_bits<float>(bits));
}

/// Prints one stage that is a fold.
class CFold {
 public:
  /// `mark`: part of the names of accumulators, where folds have one loop.
  CFold(CCode& code, const Stage& stage, std::string mark = "")
      : code_(code),
        out_(code.out),
        stage_(stage),
        fold_(stage.fold),
        type_(code.kernel.code[stage.fold.value].type),
        lanes_(code.lanes_of(stage)),
        vector_(code.head.vector(type_, lanes_)),
        bits_(code.head.mask(byte_size(type_), lanes_)),
        paths_(code.has_paths(stage)),
        widens_(!paths_ && code.is_deep(stage) &&
                lanes_ * static_cast<int32_t>(byte_size(type_)) < code.head.target().vector_bytes),
        notes_nan_(notes_nan()),
        mark_(std::move(mark)) {}

  void print() {
    switch (fold_.order) {
      case Order::lanes: print_lanes(); break;
      case Order::cascade: print_cascade(); break;
      case Order::columns: break;  // of a space of columns
      case Order::vectors: print_vectors(); break;
      case Order::moments: print_moments(); break;
      case Order::blocks: print_blocks(); break;
      case Order::pairwise: print_pairwise({this}); break;
    }
  }

  /// Folds in pairs, with as many lanes and accumulators, in one loop.
  void print_pairwise(const std::vector<CFold*>& folds) {
    const int32_t count = fold_.accumulators;
    const int32_t step = lanes_ * count;
    for (CFold* fold : folds) out_.line("{} {}[64];", fold->vector_, fold->level());
    out_.line("i64 blocks = 0;");
    out_.open("for (i64 from = 0, stop; from < n; from = stop, blocks++)");
    out_.line("stop = smaller(from + {}, n);", step * kPairwiseVectors);
    for (CFold* fold : folds) fold->declare_accumulators(count, fold->zero());
    out_.line("i64 b = from;");
    out_.open("for (; b + {0} <= stop; b += {0})", step);
    for (int32_t c = 0; c < count; ++c) {
      for (CFold* fold : folds) {
        const std::string sum = fold->accumulator(c);
        fold->print_part_of_block(c, fmt::format("b + {}", c * lanes_), sum + " + x");
      }
    }
    out_.close();
    out_.open("for (i64 j = b; j < stop; j += {})", lanes_);
    out_.line("const i64 k = smaller({}, stop - j);", lanes_);
    for (CFold* fold : folds) fold->print_rest_of_block();
    out_.close();
    for (CFold* fold : folds) fold->print_end_of_block();
    out_.close();
    for (CFold* fold : folds) fold->print_sum_of_blocks();
  }

 private:
  std::string accumulator(int32_t c) const { return fmt::format("a{}{}", mark_, c); }
  std::string yielded(const Copy& copy) const { return code_.value(fold_.value, copy); }

  void declare_accumulators(int32_t count, const std::string& start) {
    for (int32_t c = 0; c < count; ++c) out_.line("{} {} = {};", vector_, accumulator(c), start);
  }

  void merge_accumulators() {
    for (int32_t c = 1; c < fold_.accumulators; ++c) {
      out_.line("a0 = {};", combined("a0", accumulator(c)));
    }
  }

  std::string combined(const std::string& a, const std::string& b) {
    return code_.binary(fold_.combine, type_, lanes_, a, b);
  }

  /// Declares `name`, what the whole vector at j yields. Both paths are computed only in the vector
  /// that has both, and in those behind it.
  void print_yielded(std::string_view name) {
    Copy copy{.lanes = lanes_};
    out_.line("{} {};", vector_, name);
    if (paths_) out_.open("if (j + {} <= body)", lanes_);
    if (!paths_) out_.open();
    code_.print(stage_, copy);
    out_.line("{} = {};", name, yielded(copy));
    out_.close();
    if (!paths_) return;
    copy.paths = true;
    out_.open("else");
    code_.print(stage_, copy);
    out_.line("{} = {};", name, yielded(copy));
    out_.close();
  }

  /// Declares `all`, an array of what elements yield from `first` on, which becomes `from`, to
  /// `end`. They are computed in vectors of all lanes that the CPU has, although eager's order of
  /// summation has fewer.
  void print_widely(const std::string& first, const std::string& end, int32_t most) {
    const int32_t lanes = code_.head.target().vector_bytes / static_cast<int32_t>(byte_size(type_));
    const std::string vector = code_.head.vector(type_, lanes);
    out_.line("const i64 from = {};", first);
    out_.line("{} all[{}] __attribute__((aligned(64)));", element_type(type_), most + lanes);
    out_.open();
    code_.print_invariants(stage_, lanes);
    out_.line("i64 j = from;");
    code_.each_vector({.lanes = lanes}, end, end, [&](const Copy& copy) {
      code_.print(stage_, copy);
      out_.line("*({}m*)(all + (j - from)) = {};", vector, yielded(copy));
    });
    out_.close();
  }

  // ---- lanes ----

  void print_lanes() {
    declare_accumulators(fold_.accumulators, code_.literal(type_, code_.start(stage_), lanes_));
    for (int32_t c = 0; notes_nan_ && c < fold_.accumulators; ++c) {
      out_.line("{} nan{} = {{0}};", bits_, c);
    }
    const int32_t block = lanes_ * fold_.accumulators;
    out_.line("i64 b = 0;");
    out_.open("for (; b + {} <= {}; b += {})", block, paths_ ? "body" : "n", block);
    for (int32_t c = 0; c < fold_.accumulators; ++c) {
      out_.open();
      const Copy copy{.lanes = lanes_, .accumulator = accumulator(c)};
      out_.line("const i64 j = b + {};", c * lanes_);
      code_.print(stage_, copy);
      out_.line("a{} = {};", c, next(copy));
      if (notes_nan_) out_.line("nan{} |= {};", c, nan_of(copy));
      out_.close();
    }
    out_.close();
    if (block > 1 || paths_) print_rest_of_lanes(block);
    for (int32_t c = 0; notes_nan_ && c < fold_.accumulators; ++c) {
      out_.line("a{0} = ({1})(({2})a{0} | nan{0});", c, vector_, bits_);
    }
    merge_accumulators();
    merge_lanes();
    out_.line("r{} = a0[0];", stage_.end - 1);
  }

  void print_rest_of_lanes(int32_t block) {
    out_.open("for (; b < n; b += {})", block);
    for (int32_t c = 0; c < fold_.accumulators; ++c) {
      const Copy copy{
          .lanes = lanes_, .whole = false, .paths = true, .accumulator = accumulator(c)};
      out_.open("if (b + {} < n)", c * lanes_);
      out_.line("const i64 j = b + {}, k = smaller({}, n - j);", c * lanes_, lanes_);
      code_.print(stage_, copy);
      out_.line("a{0} = {1}({2}(k), {3}, a{0});", c, code_.head.select(element_type(type_), lanes_),
                code_.head.first_lanes(byte_size(type_), lanes_), next(copy));
      if (notes_nan_) {
        out_.line("nan{} |= {} & {}(k);", c, nan_of(copy),
                  code_.head.first_lanes(byte_size(type_), lanes_));
      }
      out_.close();
    }
    out_.close();
  }

  // Of the maximum or minimum of a row, NaN is noted apart: in the operation, its comparison would
  // stand in the chain from one value of an accumulator to the next.

  bool notes_nan() const {
    if (fold_.order != Order::lanes) return false;
    const std::vector<Instruction>& code = code_.kernel.code;
    const Instruction& yield = code[fold_.value];
    if (yield.op != Op::maximum && yield.op != Op::minimum) return false;
    // Nothing else may depend on the accumulator.
    const auto is_partial = [&](Id id) { return code[id].op == Op::accumulator; };
    if (!is_partial(yield.operands[0]) || is_partial(yield.operands[1])) return false;
    for (Id id = stage_.begin; id < stage_.end; ++id) {
      const bool uses = std::ranges::any_of(code[id].operands, [&](Id operand) {
        return is_partial(operand) || operand == fold_.value;
      });
      if (uses && id != fold_.value) return false;
    }
    return !is_nan(type_, code_.start(stage_));
  }
  /// The next accumulator.
  std::string next(const Copy& copy) {
    if (!notes_nan_) return yielded(copy);
    const Instruction& yield = code_.kernel.code[fold_.value];
    return code_.binary(yield.op == Op::maximum ? Op::max : Op::min, type_, lanes_,
                        copy.accumulator, code_.value(yield.operands[1], copy));
  }
  std::string nan_of(const Copy& copy) const {
    const std::string x = code_.value(code_.kernel.code[fold_.value].operands[1], copy);
    return fmt::format("({})({} != {})", bits_, x, x);
  }

  void merge_lanes() {
    if (lanes_ == 1) return;
    const bool tree = fold_.merge == Merge::tree;
    if (tree) {
      out_.open("if (n >= {})", lanes_);
      merge_tree();
      out_.close();
    }
    out_.open("{}", tree ? "else" : "");
    out_.line("const {} all = a0;", vector_);
    out_.line("for (i64 l = 1; l < smaller(n, {}); l++) a0 = {};", lanes_,
              combined("a0", fmt::format("{}(all[l])", splat())));
    out_.close();
  }

  void merge_tree() {
    const std::string sum = accumulator(0);
    for (int32_t half = lanes_ / 2; half > 0; half /= 2) {
      std::string order;
      for (int32_t lane = 0; lane < lanes_; ++lane) order += fmt::format(", {}", lane ^ half);
      const std::string turned = fmt::format("__builtin_shufflevector({}, {}{})", sum, sum, order);
      out_.line("{} = {};", sum, combined(sum, turned));
    }
  }

  // ---- vectors: the code yields elements ----

  void print_vectors() {
    out_.line("const i64 vectors = n / {};", lanes_);
    print_rest();
    declare_accumulators(1, fmt::format("({}){{0}}", vector_));
    out_.open("for (i64 j = 0; j < vectors * {0}; j += {0})", lanes_);
    print_yielded("x");
    out_.line("a0 += x;");
    out_.close();
    const Id result = stage_.end - 1;
    if (fold_.merge == Merge::tree) merge_tree();
    out_.line("r{} = a0[0];", result);
    if (fold_.merge == Merge::sequence) {
      out_.line("for (i64 l = 1; l < {}; l++) r{} += a0[l];", lanes_, result);
    }
    out_.line("for (i64 l = 0; l < count; l++) r{} += rest[l];", result);
  }

  // ---- blocks: the code yields elements ----

  void print_blocks() {
    const int32_t count = fold_.accumulators;
    out_.line("const i64 vectors = n / {};", lanes_ * count);
    print_rest();
    declare_accumulators(count, fmt::format("({}){{0}}", vector_));
    out_.line("i64 l = 0;");
    out_.open("if (vectors > 0)");
    for (int32_t c = 0; c < count; ++c) {
      print_part_of_block(c, fmt::format("{}", c * lanes_), "x");
    }
    out_.open("for (i64 b = {0}; b < vectors * {0}; b += {0})", lanes_ * count);
    for (int32_t c = 0; c < count; ++c) {
      print_part_of_block(c, fmt::format("b + {}", c * lanes_), combined(accumulator(c), "x"));
    }
    out_.close();
    for (int32_t step = 1; step < count; step *= 2) {
      for (int32_t c = 0; c < count; c += 2 * step) {
        out_.line("{} = {};", accumulator(c), combined(accumulator(c), accumulator(c + step)));
      }
    }
    out_.line("const {} all = a0;", vector_);
    out_.line("for (i64 lane = 1; lane < {}; lane++) a0 = {};", lanes_,
              combined(fmt::format("{}(all[lane])", splat()), "a0"));
    out_.close();
    out_.line("else if (count > 0) a0 = {}(rest[l++]);", splat());
    out_.line("for (; l < count; l++) a0 = {};",
              combined(fmt::format("{}(rest[l])", splat()), "a0"));
    out_.line("r{} = a0[0];", stage_.end - 1);
  }

  /// Makes accumulator c `next`, an expression of x, the vector at `first`.
  void print_part_of_block(int32_t c, const std::string& first, const std::string& next) {
    out_.open();
    out_.line("const i64 j = {};", first);
    print_yielded("x");
    out_.line("{} = {};", accumulator(c), next);
    out_.close();
  }

  std::string splat() { return code_.head.splat(element_type(type_), lanes_); }

  // ---- pairwise: the code yields elements ----

  std::string level() const { return "level" + mark_; }
  std::string zero() const { return fmt::format("({}){{0}}", vector_); }

  void print_rest_of_block() {
    const Copy copy{.lanes = lanes_, .whole = false, .paths = true};
    out_.open();
    code_.print(stage_, copy);
    out_.line("{} += {}({}(k), {}, {});", accumulator(0),
              code_.head.select(element_type(type_), lanes_),
              code_.head.first_lanes(byte_size(type_), lanes_), yielded(copy), zero());
    out_.close();
  }

  void print_end_of_block() {
    for (int32_t half = fold_.accumulators / 2; half > 0; half /= 2) {
      for (int32_t c = 0; c < half; ++c) {
        out_.line("{} += {};", accumulator(c), accumulator(c + half));
      }
    }
    out_.open();
    out_.line("i64 l = 0;");
    out_.line("for (; blocks >> l & 1; l++) {} += {}[l];", accumulator(0), level());
    out_.line("{}[l] = {};", level(), accumulator(0));
    out_.close();
  }

  void print_sum_of_blocks() {
    declare_accumulators(1, zero());
    out_.line("for (i64 l = 0; blocks >> l; l++) if (blocks >> l & 1) {} += {}[l];", accumulator(0),
              level());
    merge_tree();
    out_.line("r{} = {}[0];", stage_.end - 1, accumulator(0));
  }

  // ---- cascades ----

  /// The loop over `steps` with its accumulators and levels.
  void print_levels() {
    const int32_t count = kCascadeAccumulators;
    declare_accumulators(count, fmt::format("({}){{0}}", vector_));
    out_.line("{} level[{}][{}] = {{0}};", vector_, kCascadeLevels, count);
    out_.line("const i64 power = {}(steps), stretch = 1l << power;", code_.head.cascade_power());
    out_.open("for (i64 step = 0; step < steps;)");
    out_.line("const i64 stop = smaller(step + stretch, steps), full = stop - step == stretch;");
    out_.open("for (; step < stop; step++)");
    for (int32_t c = 0; c < count; ++c) print_vector(c, fmt::format("step * {} + {}", count, c));
    out_.close();
    out_.line("if (!full) break;");
    for (int32_t c = 0; c < count; ++c) {
      out_.line("level[1][{0}] += a{0}, a{0} = ({1}){{0}};", c, vector_);
    }
    out_.open("for (i64 l = 2; l < {} && !(step & ((stretch - 1) << ((l - 1) * power))); l++)",
              kCascadeLevels);
    out_.line(
        "for (i64 c = 0; c < {}; c++) level[l][c] += level[l - 1][c], level[l - 1][c] = "
        "({}){{0}};",
        count, vector_);
    out_.close();
    out_.close();
    for (int32_t level = 1; level < kCascadeLevels; ++level) {
      for (int32_t c = 0; c < count; ++c) out_.line("a{0} += level[{1}][{0}];", c, level);
    }
  }

  /// Adds the elements of vector `index` to accumulator c.
  void print_vector(int32_t c, const std::string& index) {
    out_.open();
    out_.line("const i64 first = ({}) * {};", index, lanes_ * fold_.accumulators);
    for (int32_t part = 0; part < fold_.accumulators; ++part) {
      if (part == 0) out_.line("{} x;", vector_);
      out_.open();
      out_.line("const i64 j = first + {};", part * lanes_);
      print_yielded("y");
      out_.line("x {}= y;", part == 0 ? "" : "+");
      out_.close();
    }
    out_.line("a{} += x;", c);
    out_.close();
  }

  /// The elements from vector `vectors` on, into the array `rest` of `count` elements.
  void print_rest() {
    const int32_t vector = lanes_ * fold_.accumulators;
    out_.line("const i64 count = n - vectors * {};", vector);
    out_.line("{} rest[{}];", element_type(type_), vector);
    out_.open("for (i64 j = n - count; j < n; j += {})", lanes_);
    out_.line("const i64 k = smaller({}, n - j);", lanes_);
    const Copy copy{.lanes = lanes_, .whole = false, .paths = true};
    code_.print(stage_, copy);
    out_.line("{}(rest + (j - n + count), {}, k);", code_.head.put(element_type(type_), lanes_),
              yielded(copy));
    out_.close();
  }

  void print_cascade() {
    out_.line("const i64 vectors = n / {};", lanes_ * fold_.accumulators);
    print_rest();
    const Id result = stage_.end - 1;
    out_.open("if (vectors == 0)");
    out_.line("r{} = {}(rest, count);", result, code_.head.short_sum(type_));
    out_.close();
    out_.open("else");
    out_.line("const i64 steps = vectors / {};", kCascadeAccumulators);
    print_levels();
    out_.open("for (i64 v = steps * {}; v < vectors; v++)", kCascadeAccumulators);
    print_vector(0, "v");
    out_.close();
    for (int32_t c = 1; c < kCascadeAccumulators; ++c) out_.line("a0 += a{};", c);
    out_.line("r{} = 0;", result);
    out_.line("for (i64 l = 0; l < count; l++) r{} += rest[l];", result);
    out_.line("for (i64 l = 0; l < {}; l++) r{} += a0[l];", lanes_, result);
    out_.close();
  }

  // ---- moments ----

  void print_moments() {
    const std::string moments = code_.head.moments(type_, lanes_, fold_.fused);
    const std::string fma = code_.head.arithmetic(Op::fma, type_, lanes_);
    const bool fused = fold_.fused != Fused::none;
    const std::string zero = fmt::format("({}){{0}}", vector_);
    const int32_t parts = fold_.accumulators;
    out_.line("const i64 vectors = n / {}, chunks = (vectors + {}) / {};", lanes_ * parts,
              kMomentsChunk - 1, kMomentsChunk);
    out_.line("const i64 depth = chunks <= 1 ? 0 : 64 - __builtin_clzl(chunks - 1);");
    out_.line("{} level[64];", moments);
    out_.line("for (i64 l = 0; l < larger(depth, 1); l++) level[l] = ({}){{0}};", moments);
    out_.open("for (i64 chunk = 0; chunk < chunks; chunk++)");
    out_.line("const i64 start = chunk * {0}, stop = smaller(start + {0}, vectors);",
              kMomentsChunk);
    if (widens_)
      print_widely(fmt::format("start * {}", lanes_ * parts),
                   fmt::format("stop * {}", lanes_ * parts), kMomentsChunk * lanes_ * parts);
    for (int32_t part = 0; part < parts; ++part) {
      out_.line("{0} mean{1} = {2}, squares{1} = {2};", vector_, part, zero);
    }
    out_.open("for (i64 v = start; v < stop; v++)");
    out_.line("const {} share = {}(1 / ({})(v - start + 1));", vector_, splat(),
              element_type(type_));
    for (int32_t part = 0; part < parts; ++part) {
      out_.open();
      out_.line("const i64 j = v * {} + {};", lanes_ * parts, part * lanes_);
      if (widens_) {
        out_.line("const {0} x = *(const {0}m*)(all + (j - from));", vector_);
      } else {
        print_yielded("x");
      }
      out_.line("const {} difference = x - mean{};", vector_, part);
      if (fused) {
        out_.line("mean{0} = {1}(share, difference, mean{0});", part, fma);
        out_.line("squares{0} = {1}(difference, x - mean{0}, squares{0});", part, fma);
      } else {
        out_.line("mean{0} += share * difference;", part);
        out_.line("squares{0} += difference * (x - mean{0});", part);
      }
      out_.close();
    }
    out_.close();
    for (int32_t part = 0; part < parts; ++part) {
      out_.line("add_{0}(&level[0], ({0}){{stop - start, mean{1}, squares{1}}});", moments, part);
    }
    out_.open("for (i64 l = 1, full = chunk + 1; l < depth && !(full & 1); l++, full >>= 1)");
    out_.line("add_{}(&level[l], level[l - 1]);", moments);
    out_.line("level[l - 1] = ({}){{0}};", moments);
    out_.close();
    out_.close();
    out_.line("for (i64 l = 1; l < depth; l++) add_{}(&level[0], level[l]);", moments);
    print_rest();
    out_.line("end_{}(rest, count, level[0], vectors * {}, &r{}, &r{});", moments, parts,
              stage_.end - 2, stage_.end - 1);
  }

  CCode& code_;
  CLines& out_;
  const Stage& stage_;
  const Fold& fold_;
  DType type_;
  int32_t lanes_;
  std::string vector_;
  std::string bits_;  // integers of vector_
  bool paths_;
  bool widens_;  // a deep stage has fewer lanes than the CPU
  bool notes_nan_;
  std::string mark_;
};

}  // namespace

bool share_loop(const CCode& code, const Stage& a, const Stage& b) {
  const auto is_pairwise = [&](const Stage& stage) {
    return stage.kind == StageKind::fold && stage.fold.order == Order::pairwise &&
           !stage.fold.segments && !code.has_paths(stage);
  };
  const std::vector<Instruction>& instructions = code.kernel.code;
  // Nothing of the first one is read by the second one, in registers or in memory.
  const auto uses_first = [&](Id id) { return id >= a.begin && id < a.end; };
  const bool apart = std::none_of(
      instructions.begin() + b.begin, instructions.begin() + b.end,
      [&](const Instruction& code) { return std::ranges::any_of(code.operands, uses_first); });
  const bool stores = std::any_of(instructions.begin() + a.begin, instructions.begin() + b.end,
                                  [](const Instruction& code) { return code.op == Op::store; });
  return !code.columns() && is_pairwise(a) && is_pairwise(b) && apart && !stores &&
         a.fold.lanes == b.fold.lanes && a.fold.accumulators == b.fold.accumulators;
}

void print_folds(CCode& code, std::span<const Stage> stages) {
  std::vector<CFold> folds;
  for (const Stage& stage : stages)
    folds.emplace_back(code, stage, fmt::format("_{}_", stage.begin));
  std::vector<CFold*> all;
  for (CFold& fold : folds) all.push_back(&fold);
  all.front()->print_pairwise(all);
}

void print_fold(CCode& code, const Stage& stage) {
  code.columns() ? print_fold_of_columns(code, stage) : CFold(code, stage).print();
}

}  // namespace antegrad::lower
