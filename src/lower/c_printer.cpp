#include "lower/c_printer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lower/c_code.h"
#include "lower/kernel_reach.h"

namespace antegrad::lower {
namespace {

/// Elements that a strip function gets at once: whole vectors, and arrays that stay in a cache.
constexpr int32_t kStrip = 512;

/// Prints one kernel as a function.
class CKernel {
 public:
  CKernel(const Kernel& kernel, CHead& head) : kernel_(kernel), code_(kernel, head, out_) {}

  std::string print() {
    out_.open("void {}(char* const* buffers, const i64* numbers, i64 begin, i64 end, i64 thread)",
              kernel_.name);
    out_.line("if (begin >= end) return;");
    print_arguments();
    if (calls_strips(kernel_))
      out_.line("const int threads = {}(1);", code_.head.library_threads());
    switch (kernel_.space) {
      case Space::elements: print_elements(); break;
      case Space::rows: print_rows(); break;
      case Space::columns: print_columns(); break;
    }
    if (writes_far()) out_.line("{}", code_.head.target().fence);
    if (calls_strips(kernel_)) out_.line("{}(threads);", code_.head.library_threads());
    out_.close();
    return out_.text();
  }

 private:
  size_t dimensions() const { return kernel_.sizes.size(); }
  std::string size(size_t d) const { return code_.extent(kernel_.sizes[d]); }

  void print_arguments() {
    for (size_t i = 0; i < kernel_.numbers.size(); ++i) {
      const Number& number = kernel_.numbers[i];
      if (number.type == DType::i64) {
        out_.line("const i64 n_{} = numbers[{}];", number.name, i);
      } else {
        out_.line("const {0} n_{1} = ({0})as_f64(numbers[{2}]);", name(number.type), number.name,
                  i);
      }
    }
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[i];
      const std::string start = (buffer.offset.is(0) ? "" : " + " + code_.extent(buffer.offset)) +
                                code_.term("thread", buffer.thread);
      out_.line("{0}* const b_{1} = ({0}*)buffers[{2}]{3};", CCode::pointee(buffer), buffer.name, i,
                start);
    }
    print_what_is_far();
  }

  bool writes_far() const {
    return std::ranges::any_of(kernel_.buffers,
                               [&](const Buffer& buffer) { return code_.goes_far(buffer); });
  }

  /// Large results go past the caches, but for those in whose place an operand lies: its lines are
  /// in a cache already, from which they would have to be removed.
  void print_what_is_far() {
    std::string elements = size(0);
    for (size_t d = 1; d < dimensions(); ++d) elements += " * " + size(d);
    for (const Buffer& buffer : kernel_.buffers) {
      if (!code_.goes_far(buffer)) continue;
      std::string apart;
      for (const Buffer& other : kernel_.buffers) {
        if (!other.read || byte_size(other.type) != byte_size(buffer.type)) continue;
        apart += fmt::format(" && (u64)b_{} != (u64)b_{}", buffer.name, other.name);
      }
      out_.line("const i64 far_{} = {} * {} >= {}{};", buffer.name, elements,
                byte_size(buffer.type), kFarBytes, apart);
    }
  }

  /// i0, i1, ... of the first `count` dimensions at flat index `begin`.
  void print_first_indices(size_t count) {
    if (count == 1) return out_.line("i64 i0 = begin;");
    out_.line("i64 rest = begin;");
    for (size_t d = count; d-- > 1;) {
      out_.line("i64 i{0} = rest % {1}; rest /= {1};", d, size(d));
    }
    out_.line("i64 i0 = rest;");
  }

  /// Adds one to index d, and to the next outer ones where it ends.
  void print_next_index(size_t d) {
    out_.line("i{}++;", d);
    for (; d > 0; --d) out_.line("if (i{0} == {1}) i{0} = 0, i{2}++;", d, size(d), d - 1);
  }

  /// Parts of [begin, end) that lie in one row of dimension `lane`, `at` and `n` elements long.
  template <class Body>
  void each_part(size_t lane, const Body& body) {
    print_first_indices(lane + 1);
    if (lane == 0) {
      out_.line("const i64 at = begin, n = end - begin;");
      code_.print_pointers(1);
      body();
      return;
    }
    out_.open("for (i64 at = begin, n; at < end; at += n)");
    out_.line("n = smaller({} - i{}, end - at);", size(lane), lane);
    code_.print_pointers(lane + 1);
    body();
    out_.line("i{} = 0;", lane);
    print_next_index(lane - 1);
    out_.close();
  }

  void print_elements() {
    each_part(dimensions() - 1, [&] { print_each(kernel_.stages[0]); });
  }

  void declare_row_values() {
    const std::vector<bool> values = row_values();
    for (const Stage& stage : kernel_.stages) {
      for (Id id = stage.begin; id < stage.end; ++id) {
        if (!values[id]) continue;
        out_.line("{} r{}{};", code_.value_element(id), id,
                  code_.columns() ? fmt::format("[{}] __attribute__((aligned(64)))",
                                                kColumns * arrays_of(stage))
                                  : "");
      }
    }
  }

  /// Arrays of a strip that hold a value of a stage in a space of columns, or become it.
  static int32_t arrays_of(const Stage& stage) {
    if (stage.kind != StageKind::fold) return 1;
    return stage.fold.order == Order::columns ? kCascadeLevels : stage.fold.accumulators;
  }

  std::vector<bool> row_values() const {
    std::vector<bool> values(kernel_.code.size());
    for (size_t id = 0; id < values.size(); ++id) {
      values[id] = code_.crosses(static_cast<Id>(id)) || kernel_.code[id].op == Op::result;
    }
    return values;
  }

  void print_rows() {
    const size_t outer = dimensions() - static_cast<size_t>(kernel_.inner);
    out_.line("const i64 n = {};", code_.inner_size());
    if (code_.has_row_blocks()) return print_blocks_of_rows();
    if (code_.turned().empty()) return print_single_rows(outer);
    out_.open("if (n <= {})", kTurnedElements);
    print_turned_rows(outer);
    out_.close();
    out_.open("else");
    print_single_rows(outer);
    out_.close();
  }

  void print_single_rows(size_t outer) {
    if (outer > 0) print_first_indices(outer);
    print_memory_of_rows();
    code_.declare_next_rows();
    out_.open("for (i64 row = begin; row < end; row++)");
    print_stages_of_row(outer);
    if (outer > 0) print_next_index(outer - 1);
    out_.close();
  }

  /// Blocks of rows, of which buffers that lie across rows are transposed before and behind.
  void print_turned_rows(size_t outer) {
    const size_t last = outer - 1;
    print_first_indices(outer);
    print_memory_of_rows();
    print_arrays_of_turned(code_);
    out_.open("for (i64 block = begin, rows; block < end; block += rows)");
    out_.line("rows = smaller({}, smaller(end - block, {} - i{}));", kTurnedRows, size(last), last);
    print_turns(code_, /*written=*/false);
    out_.open("for (i64 turn = 0; turn < rows; turn++, i{}++)", last);
    out_.line("const i64 row = block + turn;");
    code_.set_turning(true);
    print_stages_of_row(outer);
    code_.set_turning(false);
    out_.close();
    out_.line("i{} -= rows;", last);
    print_turns(code_, /*written=*/true);
    out_.line("i{} += rows - 1;", last);
    print_next_index(last);
    out_.close();
  }

  void print_stages_of_row(size_t outer) {
    code_.print_pointers(outer);
    declare_row_values();
    const std::vector<Stage>& stages = kernel_.stages;
    for (size_t first = 0, end = 0; first < stages.size(); first = end) {
      // Each shares the loop with all others.
      const auto joins = [&](size_t next) {
        for (size_t i = first; i < next; ++i) {
          if (!share_loop(code_, stages[i], stages[next])) return false;
        }
        return true;
      };
      for (end = first + 1; end < stages.size() && joins(end);) ++end;
      if (end == first + 1) {
        print_stage_of_row(stages[first]);
      } else {
        print_folds_of_row(std::span(stages).subspan(first, end - first));
      }
    }
  }

  void print_folds_of_row(std::span<const Stage> stages) {
    out_.open();
    code_.print_invariants(stages, code_.lanes_of(stages.front()));
    print_folds(code_, stages);
    out_.close();
  }

  void print_stage_of_row(const Stage& stage) {
    switch (stage.kind) {
      case StageKind::row: print_row_stage(stage); break;
      case StageKind::each: print_each_segment(stage); break;
      case StageKind::fold: print_row_fold(stage); break;
    }
  }

  void print_each_segment(const Stage& stage) {
    code_.each_segment([&] {
      code_.print_segment(stage);
      print_each(stage);
    });
  }

  /// A stage runs for all rows of a block before the next one; what rows keep lies in arrays.
  void print_blocks_of_rows() {
    const std::vector<bool> values = row_values();
    out_.open("for (i64 block = begin; block < end; block += {})", kRowBlock);
    out_.line("const i64 last = smaller(block + {}, end) - 1;", kRowBlock);
    for (Id id = 0; id < static_cast<Id>(values.size()); ++id) {
      if (!values[id]) continue;
      out_.line("{} s{}[{}] __attribute__((aligned(64)));", code_.value_element(id), id, kRowBlock);
    }
    for (const Stage& stage : kernel_.stages) {
      if (code_.folds_across(stage)) {
        print_fold_across_rows(code_, stage);
        continue;
      }
      out_.open("for (i64 row = block; row <= last; row++)");
      out_.line("const i64 i0 = row;");
      code_.print_pointers(1, &stage);
      for (Id id = 0; id < stage.end; ++id) {
        if (!values[id]) continue;
        const std::string kept = id < stage.begin ? fmt::format(" = s{}[row - block]", id) : "";
        out_.line("{} r{}{};", code_.value_element(id), id, kept);
      }
      print_stage_of_row(stage);
      for (Id id = stage.begin; id < stage.end; ++id) {
        if (values[id]) out_.line("s{0}[row - block] = r{0};", id);
      }
      out_.close();
    }
    out_.close();
  }

  void print_memory_of_rows() {
    for (Id id = 0; id < static_cast<Id>(kernel_.code.size()); ++id) {
      if (!code_.is_remembered(id)) continue;
      // A last vector may have lanes beyond the row.
      out_.line("{} m{}[{} + 64] __attribute__((aligned(64)));", code_.value_element(id), id,
                kRemembered);
    }
  }

  void print_row_stage(const Stage& stage) {
    out_.open();
    code_.print_invariants(stage, 1);
    code_.print(stage, {.lanes = 1});
    for (Id id = stage.begin; id < stage.end; ++id) {
      if (code_.crosses(id)) out_.line("r{0} = v{0}[0];", id);
    }
    out_.close();
  }

  void print_row_fold(const Stage& stage) {
    const auto reduce = [&] {
      code_.print_invariants(stage, code_.lanes_of(stage));
      print_bounds(stage);
      print_fold(code_, stage);
    };
    out_.open();
    if (stage.fold.segments) {
      const Id result = stage.end - 1;
      out_.line("f64 sum = 0;");
      out_.open();
      code_.each_segment([&] {
        code_.print_segment(stage);
        out_.line("{} r{};", element_type(kernel_.code[stage.fold.value].type), result);
        reduce();
        out_.line("sum += r{};", result);
      });
      out_.close();
      out_.line("r{} = sum;", result);
    } else {
      reduce();
    }
    out_.close();
  }

  /// Where the bodies of paths end, from the start of this part of a row.
  void print_bounds(const Stage& stage) {
    std::set<std::pair<uint64_t, int32_t>> bounds;
    for (Id id = stage.begin; id < stage.end; ++id) {
      const Instruction& code = kernel_.code[id];
      if (code.op == Op::path) bounds.insert({code.bits, code.index});
    }
    if (bounds.empty()) return;
    const bool rows = kernel_.space == Space::rows;
    code_.head.define(
        "body_end",
        R"(// The end of whole blocks from `at` on, in the part of [begin, end) that it lies in.
INLINE i64 body_end(i64 begin, i64 end, i64 at, i64 part, i64 block) {
  if (part == 0) return 0;
  const i64 from = larger(begin, at - at % part), to = smaller(end, at - at % part + part);
  return from + (to - from) / block * block - at;
}
)");
    std::string body = "n";
    for (const auto& [block, over] : bounds) {
      std::string part;
      for (size_t d = dimensions() - over; d < dimensions(); ++d) {
        part += (part.empty() ? "" : " * ") + size(d);
      }
      const std::string name = fmt::format("bound_{}_{}", block, over);
      out_.line("const i64 {} = smaller(larger(body_end({}, {}, {}, {}, {}), 0), n);", name,
                rows ? "begin * n" : "begin", rows ? "end * n" : "end", rows ? "row * n" : "at",
                part, block);
      body = fmt::format("smaller({}, {})", body, name);
    }
    out_.line("const i64 body = {};", body);
  }

  void print_each(const Stage& stage) {
    const int32_t lanes = code_.lanes_of(stage);
    int32_t phases = 0;
    for (Id id = stage.begin; id < stage.end; ++id) phases = std::max(phases, code_.phase_of(id));
    out_.open();
    code_.print_invariants(stage, lanes);
    print_bounds(stage);
    if (phases == 0) {
      out_.line("i64 j = 0;");
      print_loops(stage, lanes, 0, "n");
    } else {
      print_strips(stage, lanes, phases);
    }
    out_.close();
  }

  /// From j on to `end`: whole vectors, then the rest.
  void print_loops(const Stage& stage, int32_t lanes, int32_t phase, const std::string& end) {
    const bool paths = code_.has_paths(stage);
    const std::string whole_end = !paths       ? end
                                  : end == "n" ? "body"
                                               : fmt::format("smaller(body, {})", end);
    const Copy whole{.lanes = lanes, .phase = phase, .vectors = code_.vectors_of(stage)};
    code_.each_vector(whole, whole_end, end, [&](const Copy& copy) { code_.print(stage, copy); });
  }

  void print_strips(const Stage& stage, int32_t lanes, int32_t phases) {
    for (Id id = stage.begin; id < stage.end; ++id) {
      if (!code_.is_kept(id)) continue;
      out_.line("{} t{}[{}] __attribute__((aligned(64)));", code_.value_element(id), id, kStrip);
      if (code_.is_uniform(id)) {
        out_.line("for (i64 l = 0; l < {0}; l++) t{1}[l] = v{1}[0];", kStrip, id);
      }
    }
    out_.open("for (i64 j0 = 0; j0 < n; j0 += {})", kStrip);
    out_.line("const i64 stop = smaller(n, j0 + {});", kStrip);
    for (int32_t phase = 0; phase <= phases; ++phase) {
      for (Id id = stage.begin; id < stage.end; ++id) {
        if (code_.is_strip(id) && code_.phase_of(id) == phase) print_strip_call(id);
      }
      out_.open();
      out_.line("i64 j = j0;");
      print_loops(stage, lanes, phase, "stop");
      out_.close();
    }
    out_.close();
  }

  void print_strip_call(Id id) {
    const Instruction& code = kernel_.code[id];
    const Function& function = kernel_.functions[code.index];
    code_.head.declare(function);
    std::string arguments;
    for (const Id operand : code.operands) arguments += fmt::format("t{}, ", operand);
    out_.line("{}((int)(stop - j0), {}t{}, {});", function.symbol, arguments, id, function.mode);
  }

  void print_columns() {
    const size_t lane = dimensions() - 2;
    each_part(lane, [&] {
      std::set<int32_t> orders;
      for (const Stage& stage : kernel_.stages) {
        if (stage.kind == StageKind::fold && stage.fold.order == Order::columns) {
          orders.insert(stage.fold.lanes);
        }
      }
      std::string width = fmt::format("smaller({}, n - j0)", kColumns);
      for (const int32_t order : orders) {
        // A strip does not cross the end of the blocks.
        std::string columns = size(0);
        for (size_t d = 1; d <= lane; ++d) columns += " * " + size(d);
        out_.line("const i64 block_{0} = {1} < {0} ? 4 : 4 * {0};", order, columns);
        out_.line("const i64 blocks_{0} = {1} / block_{0} * block_{0};", order, columns);
        width = fmt::format("smaller({0}, at + j0 < blocks_{1} ? blocks_{1} - at - j0 : {2})",
                            width, order, kColumns / kCascadeAccumulators);
      }
      out_.open("for (i64 j0 = 0, stop; j0 < n; j0 = stop)");
      out_.line("stop = j0 + {};", width);
      declare_row_values();
      for (const Stage& stage : kernel_.stages) print_column_stage(stage);
      out_.close();
    });
  }

  void print_column_stage(const Stage& stage) {
    out_.open();
    switch (stage.kind) {
      case StageKind::fold: print_fold(code_, stage); break;
      case StageKind::row: print_strip(stage); break;
      case StageKind::each:
        out_.open("for (i64 i = 0; i < {}; i++)", code_.inner_size());
        print_strip(stage);
        out_.close();
    }
    out_.close();
  }

  void print_strip(const Stage& stage) {
    out_.line("i64 j = j0;");
    print_loops(stage, code_.lanes_of(stage), 0, "stop");
  }

  const Kernel& kernel_;
  CLines out_;
  CCode code_;
};

}  // namespace

std::string c_source(std::span<const Kernel> kernels, const CTarget& target) {
  CHead head(target);
  std::string functions;
  for (const Kernel& kernel : kernels) functions += "\n" + CKernel(kernel, head).print();
  return head.text() + functions;
}

}  // namespace antegrad::lower
