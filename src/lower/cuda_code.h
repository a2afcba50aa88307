#pragma once

/// \file
/// What the parts of the printer of CUDA C++ share (lower/cuda_printer.h): instructions as text,
/// and loops over the elements of a stage. Not to be included elsewhere.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lower/c_code.h"
#include "lower/cuda_printer.h"
#include "lower/kernel.h"

namespace antegrad::lower {

/// Of a value in a register. Halves are bits.
std::string_view cuda_register_type(DType type);
std::string_view cuda_memory_type(DType type);

/// Whether vectors of elements of a buffer lie together.
bool is_dense(const Kernel& kernel, const Buffer& buffer);

/// Whether it holds sums over rows.
inline bool has_sums_of_rows(const Buffer& buffer) { return !buffer.thread.is(0); }

/// Whether threads keep its elements in registers, if a row fits there: those that several stages
/// load, and sums over rows.
bool is_kept(const Kernel& kernel, int32_t buffer);

/// Whether a kernel has a second function, which adds what blocks have.
bool needs_parts(const Kernel& kernel);

/// Threads of a block over columns.
inline constexpr int32_t kColumnThreads = 256;
/// The most threads of a block of the first function.
int32_t most_threads(const CudaPlan& plan, const Kernel& kernel);

/// How many stages from one on, which is a fold, are folds that do not read each other's results.
size_t count_folds_together(const Kernel& kernel, size_t first);

/// The folds of a kernel over columns, which stand before its other stages.
inline size_t count_folds(const Kernel& kernel) {
  return static_cast<size_t>(std::ranges::count(kernel.stages, StageKind::fold, &Stage::kind));
}

/// Prints one kernel. In its code V is the number of elements that a thread takes at once, k one of
/// them, and j the index of the first one in a row or, over columns, that of the row. In a row of
/// two dimensions l is its index in a segment. The elements of a buffer NAME of what runs lie at
/// p_NAME.
class CudaCode {
 public:
  CudaCode(const Kernel& kernel, const CudaPlan& plan);

  /// The file without what all files begin with.
  std::string print();

 private:
  // ---- cuda_printer.cpp: what stands around the code
  void print_function(std::string_view name, int32_t lanes, int32_t kept);
  void print_arguments();
  void print_choice();
  void print_pointers(size_t count);
  void print_indices(size_t count);
  void print_elements();
  size_t count_words() const;

  // ---- cuda_rows.cpp
  void print_rows();
  void print_each_vector(std::span<const Stage> stages);
  void print_row_stage(const Stage& stage);
  void print_folds(std::span<const Stage> stages);
  void print_segment();
  void print_kept_loads();
  void print_kept_sums();
  void print_sums_of_rows();
  void print_rows_finish();
  bool has_sums() const { return std::ranges::any_of(kernel_.buffers, has_sums_of_rows); }
  bool keeps(int32_t buffer) const { return kept_ > 0 && is_kept(kernel_, buffer); }

  // ---- cuda_columns.cpp
  void print_columns();
  void print_columns_finish();
  std::string merge_of(const Stage& stage) const;
  std::string_view partial_type(const Stage& stage) const;

  // ---- cuda_code.cpp: elements
  void print_lanes(std::span<const Stage> stages);
  void print_loads(const Stage& stage);
  void print_stores(const Stage& stage);
  void print_instruction(Id id);
  std::string expression(Id id, bool row) const;
  std::string value(Id id) const;
  std::string index(int32_t dimension) const;
  std::string start_of(const Stage& stage) const;
  /// The address of the first of V elements that lie densely, and of element k.
  std::string first(const Buffer& buffer) const;
  std::string place(const Buffer& buffer) const;
  std::string segment(const Buffer& buffer) const;
  std::string extent(Extent extent) const;
  std::string size(size_t d) const { return extent(kernel_.sizes[d]); }
  /// Dimensions that lead to what runs.
  size_t outer() const { return kernel_.sizes.size() - static_cast<size_t>(kernel_.inner); }
  std::string in_row() const { return kernel_.inner == 2 ? "l" : "j"; }
  const Extent& stride(const Buffer& buffer) const { return buffer.strides[lane_]; }
  DType type_of_fold(const Stage& stage) const { return kernel_.code[stage.fold.value].type; }

  const Kernel& kernel_;
  const CudaPlan plan_;
  const size_t lane_;
  std::vector<int32_t> stage_of_;  // by instruction
  int32_t begin_ = 0;              // values of instructions before are results of earlier stages
  int32_t kept_ = 0;               // of the function that is printed, as those of CudaPlan
  bool warps_ = false;
  CLines out_;
};

/// An operation on values of `type`.
std::string cuda_operation(Op op, DType type, const std::vector<std::string>& operands);
/// The same of an accumulator of a fold, or of two.
std::string cuda_fold_operation(Op op, DType type, const std::vector<std::string>& operands);
std::string cuda_cast(DType to, DType from, uint64_t nan, const std::string& text);
std::string cuda_literal(DType type, uint64_t bits);

}  // namespace antegrad::lower
