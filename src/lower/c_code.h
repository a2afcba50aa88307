#pragma once

/// \file
/// Internals of the C printer, shared by its files: lines with indentation, and the code of one
/// stage, of which loops print several copies. Not to be included elsewhere.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lower/c_types.h"
#include "lower/kernel.h"

namespace antegrad::lower {

/// The operator of C for operations that are one; empty for others.
std::string_view c_operator(Op op);

/// Lines of C, indented by depth.
class CLines {
 public:
  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_.append(size_t{2} * static_cast<size_t>(depth_), ' ');
    text_ += fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  }
  /// A line that ends with {, and the } of the innermost one.
  template <class... Arguments>
  void open(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    line("{} {{", fmt::format(format, std::forward<Arguments>(arguments)...));
    ++depth_;
  }
  void open() {
    line("{{");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

/// A copy of a stage's code. In C, j is the index of the first lane and, in a space of columns, i
/// the inner index. Arrays of a strip begin at index j0.
struct Copy {
  int32_t lanes = 1;
  bool whole = true;   ///< all lanes are live, otherwise the first k
  bool paths = false;  ///< body or tail by lane, otherwise the body
  std::string accumulator = {};
  int32_t phase = 0;
  int32_t vectors = 1;  ///< that go side by side, instruction by instruction
  int32_t vector = 0;   ///< which of these an instruction is printed for

  /// The index of the first lane.
  std::string first() const { return vector == 0 ? "j" : fmt::format("(j + {})", vector * lanes); }
  /// Each of the vectors.
  std::vector<Copy> parts() const {
    std::vector<Copy> all(static_cast<size_t>(vectors), *this);
    for (int32_t i = 0; i < vectors; ++i) all[i].vector = i;
    return all;
  }
};

/// Columns of a strip, a piece of the rows in a space of columns: long, so that memory is read in
/// one go, but sums of a strip stay in the nearest cache. It is shared by the accumulators of a
/// column.
inline constexpr int32_t kColumns = 4096;

/// Elements of a row that are remembered, in an array, for the stages behind.
inline constexpr int32_t kRemembered = 4096;

/// Bytes of a row that is fetched while the last one is computed, at most: two such rows fit into
/// the second cache.
inline constexpr int32_t kFetchedRow = 256 << 10;

/// Instructions of a deep stage, at least. Two of its vectors go side by side: the instructions of
/// one wait for each other, and the CPU looks ahead too little to find the next vector's.
inline constexpr int32_t kDeep = 24;

/// What a value costs at least that is remembered: as many instructions, or a call.
inline constexpr int32_t kCostly = 12;

/// Rows whose folds in order run side by side: each is a chain of operations that wait for each
/// other.
inline constexpr int32_t kRowBlock = 8;

/// As many buffers as are transposed, at most: each takes an array.
inline constexpr int32_t kTurnedBuffers = 8;

/// Prints code of a kernel's stages.
class CCode {
 public:
  CCode(const Kernel& printed, CHead& c_head, CLines& lines);

  const Kernel& kernel;
  CHead& head;
  CLines& out;

  bool columns() const { return kernel.space == Space::columns; }
  std::string extent(Extent extent) const;
  /// " + a * b", without what is 0 or 1; empty if the product is 0.
  std::string term(const std::string& factor, Extent stride) const;
  std::string inner_size() const { return extent(kernel.sizes.back()); }
  static std::string pointee(const Buffer& buffer) {
    return (buffer.written ? "" : "const ") + std::string(element_type(buffer.type));
  }
  /// Where a buffer's element lies at indices i0, i1, ... of the first `count` dimensions.
  std::string address(const Buffer& buffer, size_t count) const;
  /// Addresses at indices i0, i1, ... of the first `count` dimensions, of buffers that a stage
  /// accesses, or of all.
  void print_pointers(size_t count, const Stage* stage = nullptr);

  /// Buffers that lie across rows, and that are transposed in arrays of a block of rows.
  const std::vector<int32_t>& turned() const { return turned_; }
  /// From here on, whether stages find these buffers in the arrays, as row `turn` of the block.
  void set_turning(bool turning) { turning_ = turning; }

  /// Lanes of a stage's vectors.
  bool computes_in_i64(const Stage& stage) const;
  /// Instructions of a stage for each vector, without loads and stores.
  int32_t computing(const Stage& stage) const;
  bool is_deep(const Stage& stage) const { return computing(stage) >= kDeep; }
  /// How many vectors of a stage go side by side.
  int32_t vectors_of(const Stage& stage) const;
  int32_t lanes_of(const Stage& stage) const;
  std::string value_type(Id id, int32_t lanes);
  /// The element of value_type().
  std::string value_element(Id id) const;
  /// Whether a value compares the index along lanes with one that is the same in all of them.
  bool compares_lanes(Id id) const;
  bool is_uniform(Id id) const { return uniform_[id] && !columns(); }
  bool crosses(Id id) const { return crosses_[id]; }
  bool has_paths(const Stage& stage) const;
  /// Whether the stage is a fold in order that runs for a block of rows at once.
  bool folds_across(const Stage& stage) const;
  bool has_row_blocks() const {
    return std::ranges::any_of(kernel.stages,
                               [&](const Stage& stage) { return folds_across(stage); });
  }
  /// How many strips of a function a value waits for; 0 outside stages that print strips.
  int32_t phase_of(Id id) const { return phase_[id]; }
  bool is_strip(Id id) const;
  /// Whether a later phase reads the value, which therefore is kept in an array.
  bool is_kept(Id id) const { return kept_[id]; }
  /// Whether the value is kept for a whole row, since a later stage needs it, and would compute it
  /// from much. Longer rows than kRemembered compute it again.
  bool is_remembered(Id id) const { return remembered_[id]; }
  /// What the stage's stores, or its results, are computed from; with `recalls`, apart from values
  /// that an earlier stage remembers.
  std::vector<bool> needed(const Stage& stage, bool paths, bool recalls = false) const;

  /// A loop over vectors from j on to `end`: `body` for whole ones up to `whole_end`, first for as
  /// many at once as go side by side, and for the rest.
  template <class Body>
  void each_vector(const Copy& first, const std::string& whole_end, const std::string& end,
                   const Body& body) {
    Copy one = first;
    one.vectors = 1;
    Copy rest = one;
    rest.whole = false;
    rest.paths = true;
    if (first.vectors > 1) {
      out.open("for (; j + {0} <= {1}; j += {0})", first.vectors * first.lanes, whole_end);
      body(first);
      out.close();
    }
    out.open("for (; j + {0} <= {1}; j += {0})", one.lanes, whole_end);
    body(one);
    out.close();
    out.open("for (; j < {}; j += {})", end, first.lanes);
    out.line("const i64 k = smaller({}, {} - j);", first.lanes, end);
    body(rest);
    out.close();
  }
  /// A loop over the segments of a row; a row of one dimension is a segment.
  template <class Body>
  void each_segment(const Body& body) {
    if (kernel.inner == 1) return body();
    out.open("for (i64 i1 = 0; i1 < {}; i1++)", extent(kernel.sizes[1]));
    body();
    out.close();
  }
  /// Addresses of segment i1 of row i0, where rows have segments.
  void print_segment(const Stage& stage) {
    if (kernel.inner > 1) print_pointers(static_cast<size_t>(kernel.inner), &stage);
  }
  /// A vector of an array of a strip.
  std::string in_strip(const std::string& array, const std::string& vector,
                       const Copy& copy) const {
    return fmt::format("*({}m*)({} + ({} - j0))", vector, array, copy.first());
  }

  /// Values of earlier stages and values that are the same in all lanes, in front of a loop.
  void print_invariants(const Stage& stage, int32_t lanes) {
    print_invariants(std::span(&stage, 1), lanes);
  }
  /// Of stages that share a loop.
  void print_invariants(std::span<const Stage> stages, int32_t lanes);
  /// The stage's other values, of one phase, and its stores.
  void print(const Stage& stage, const Copy& copy);
  /// Fetches what a stage loads in the next row of a strip of columns: rows are too short for the
  /// CPU to notice that it reads one after the other.
  void print_prefetch(const Stage& stage, const Copy& copy);
  /// Whether a buffer is written past the caches where it is large: then far_NAME says so.
  bool goes_far(const Buffer& buffer) const {
    return may_be_far(buffer) && !head.target().fence.empty();
  }
  /// Declares how far from a row the next one begins, of buffers that are fetched ahead; 0 where
  /// they are not.
  void declare_next_rows();
  /// A binary operation on two values of a type.
  std::string binary(Op op, DType type, int32_t lanes, const std::string& a, const std::string& b);
  /// A vector of f32 in f64.
  std::string widened(const std::string& text, int32_t lanes);
  std::string literal(DType type, uint64_t bits, int32_t lanes);
  std::string value(Id id, const Copy& copy) const;
  /// The bits that accumulators of a fold over lanes have at the start.
  uint64_t start(const Stage& stage) const;

 private:
  void print_instruction(Id id, const Copy& copy);
  void print_recalled(const Stage& stage, const Copy& copy, const std::vector<bool>& used,
                      const std::vector<bool>& apart, const std::vector<bool>& waits);
  bool is_turned(int32_t buffer) const {
    return turning_ && std::ranges::find(turned_, buffer) != turned_.end();
  }
  /// The stride of a buffer along the lanes.
  Extent lane_stride(int32_t buffer) const {
    return is_turned(buffer) ? Extent{-1, 1}
                             : kernel.buffers[buffer].strides[lane_dimension(kernel)];
  }
  std::string expression(Id id, const Copy& copy);
  std::string access(Id id, const Copy& copy);
  std::string memory(const Instruction& code, const Copy& copy) const;
  void print_store(const Instruction& code, const Copy& copy);
  /// Finds which rows are fetched while the row before them is computed: of buffers that several
  /// stages load, in a later one that computes much, or in the last one; of results, in the stage
  /// that writes them.
  void find_fetched();
  void print_next_row(const Stage& stage, const Copy& copy);
  std::string call(Id id, const Copy& copy);
  std::string cast(Id id, const Copy& copy);
  std::string to_integer(DType to, DType from, int32_t lanes, std::string text);
  /// A vector of integers in elements of `to` bytes; `sign` is u or i.
  std::string resized(std::string text, char sign, int64_t from, int64_t to, int32_t lanes);
  std::string mask_of(Id id, int64_t bytes, const Copy& copy);
  std::string logical(const Instruction& code, Id id, const Copy& copy);
  std::string index_of_lanes(const Instruction& code, const Copy& copy) const;
  std::string lanes_compared(Id id, const Copy& copy);
  void find_masks();
  void find_phases();
  void find_remembered();

  bool turning_ = false;
  std::vector<int32_t> turned_;
  std::vector<std::vector<int32_t>> fetched_;  // buffers, by stage
  std::vector<bool> uniform_;
  std::vector<bool> crosses_;
  std::vector<bool> kept_;
  std::vector<int32_t> phase_;
  std::vector<int32_t> mask_bytes_;
  std::vector<bool> remembered_;
  std::vector<Id> recalled_;  // the remembered value that the value is, or -1
};

/// Prints a stage that is a fold.
void print_fold(CCode& code, const Stage& stage);
/// Whether two folds, one behind the other, can have one loop.
bool share_loop(const CCode& code, const Stage& a, const Stage& b);
/// Prints such folds.
void print_folds(CCode& code, std::span<const Stage> stages);
void print_fold_of_columns(CCode& code, const Stage& stage);
/// Prints the transposition of a square of vectors, x0_0, x0_1, ... from number `first` on, each of
/// `lanes` elements; returns the k of the results, xk_0, xk_1, ...
int32_t print_transposed(CLines& out, const std::string& vector, int32_t lanes, int32_t first);
/// Declares the arrays of buffers that are transposed.
void print_arrays_of_turned(CCode& code);
/// Transposes those that are written, or the others, for `rows` rows from the present indices on.
void print_turns(CCode& code, bool written);
/// Prints a stage with CCode::folds_across() for the rows `block` to `last`.
void print_fold_across_rows(CCode& code, const Stage& stage);

}  // namespace antegrad::lower
