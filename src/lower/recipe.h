#pragma once

/// \file
/// Recipes of operators as a table: what ATen's CPU kernels compute, with every rounding
/// (docs/exact-kernels.md). Read once from src/lower/recipes/pointwise.txt and rows.txt, and what
/// its kernels for GPUs compute from cuda.txt.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/dtype.h"
#include "lower/c_target.h"
#include "lower/kernel.h"
#include "lower/op.h"

namespace antegrad::lower {

/// One step of a formula. Operands are positions of earlier terms.
struct Term {
  enum class Kind : uint8_t {
    input,        ///< tensor operand `index`
    number,       ///< number `index`
    constant,     ///< `constant`
    operation,    ///< `op`: one rounding, or none
    function,     ///< `function` of the language: muladd, rnd, vec_exp, libm_exp, vml_exp, dnn_gelu
    column,       ///< i64: the index of the element in its row
    accumulator,  ///< the partial result in a fold, which starts as `constant`, or a sum over rows
    fold,         ///< `function` of the language that reduces a row: max_lanes, add_lanes, cascade
    ends,         ///< the first operand in whole vectors of a row, the second in the rest
  };
  Kind kind = Kind::constant;
  int32_t index = -1;
  double constant = 0;
  Op op = Op::add;
  std::string function = {};
  std::vector<int32_t> operands = {};
};

/// An expression in SSA form; the last term is the result.
using Formula = std::vector<Term>;

/// What an operator computes for some element types and capabilities.
struct RecipeRow {
  std::vector<DType> types;
  std::vector<Capability> capabilities;
  bool close = false;   ///< for Level::close alone, where it goes before other rows
  bool second = false;  ///< of builds of ATen whose compiler made other code of the usual row
  /// For an operand that has the stride 0 while the others have the stride 1; "" for others.
  std::string constant;
  Formula body;
  Formula tail;
  /// Of the tail from its second element on, in whole groups of 16 bytes; empty where as `tail`.
  Formula tail16;
  /// Further results, of one element a row, in the order of the operator's. An operator that has
  /// no others has neither body nor tail.
  std::vector<Formula> rows;
  /// Behind those: results of one element a column, sums over rows. Each is the next sum from the
  /// last one, a Term::Kind::accumulator; each thread adds its rows, then threads are added.
  std::vector<Formula> sums;
  /// The sum of a row of at least two elements of `body`, if it is the same in any order.
  Formula added;
};

struct RecipeInput {
  std::string name;
  std::optional<DType> type;  ///< where it is not the row's
};

/// How the elements of a kernel, or its rows, are divided among threads.
enum class ThreadSplit : uint8_t {
  grain,  ///< at least 32768 elements each
  gelu,   ///< of more than 16384 elements all threads get a part
  rows,   ///< any rows: a kernel over rows has the same bits however they are split
  whole,  ///< one call gets all rows
  parts,  ///< the same parts however many threads there are: sums over rows are those of parts
};

struct Recipe {
  std::string name;
  std::vector<RecipeInput> inputs;
  std::vector<std::string> numbers;
  std::optional<DType> result;           ///< where it is not the row's
  Capability upto = Capability::avx512;  ///< the highest for which ATen has a kernel
  std::string when;                      ///< a condition, in words
  ThreadSplit split = ThreadSplit::grain;
  int32_t vectors = 2;  ///< in a block of the body
  /// At Level::close, too, elements take body and tail as in eager: they differ in the sign of a
  /// zero, in a NaN, or in accuracy.
  bool close_paths = false;
  bool promotes = false;  ///< operands of other types are converted to their common type before
  std::vector<RecipeRow> rows;
  Space over = Space::rows;  ///< of reductions: what is reduced, rows or columns
  /// Of reductions: a row is a channel, all dimensions but the second one.
  bool channels = false;

  /// Whether its first result has the elements of its operands; otherwise it has one a row.
  bool has_elements() const { return rows.empty() || !rows[0].body.empty(); }

  /// The first row that applies, or the reason why there is none.
  std::variant<const RecipeRow*, std::string> row(DType type, Capability capability,
                                                  std::string_view constant = "") const;
  /// What other builds of ATen compute instead; null if none is known to differ.
  const RecipeRow* second_row(DType type, Capability capability) const;
  /// As row(), at Level::close.
  std::variant<const RecipeRow*, std::string> close_row(DType type, Capability capability) const;
  /// Bytes of ATen's vectors in the kernel that runs at a capability.
  int32_t vector_bytes(Capability capability) const {
    return capability == Capability::avx512 && upto == Capability::avx512 ? 64 : 32;
  }
};

/// The recipes in a text of that language. Throws GraphError that names the line.
std::vector<Recipe> parse_recipes(std::string_view text, const std::string& origin);

/// What ATen's kernels for GPUs compute: rows that the recipes of the same names have, too, if
/// there are any.
const std::vector<Recipe>& cuda_recipes();
const std::vector<Recipe>& pointwise_recipes();
/// Those whose last operand is a number of the call, a tensor of one element.
const std::vector<Recipe>& number_recipes();
/// Those of operators that reduce rows.
const std::vector<Recipe>& row_recipes();
/// The recipe of a pointwise operator of that name, or null.
const Recipe* find_recipe(std::string_view name);
/// The recipe of a reduction of that name, or null.
const Recipe* find_row_recipe(std::string_view name);

/// A function of the language that reduces a row.
struct FoldFunction {
  std::string_view name;
  Order order;
  Op combine = Op::add;   ///< of Order::lanes and blocks
  double start = 0;       ///< of the accumulator of Order::lanes
  int32_t result = 0;     ///< which of the results of the fold it is
  bool single = false;    ///< halves are added as if they were f32 in memory
  bool in_order = false;  ///< of Order::lanes: in f64, one element after the other
  bool segments = false;  ///< of Order::lanes: each segment of the row apart
};
/// Null if there is none of that name.
const FoldFunction* fold_function(std::string_view name);

/// A function of the C library that recipes name as libm_NAME, vec_NAME or vml_NAME, and what
/// stands for it in the libraries. Empty texts: there is none.
struct LibraryFunction {
  std::string_view name;
  int32_t arity;
  std::string_view sleef;  ///< error bound in Sleef's name, as in Sleef_expf8_u10
  std::string_view mkl;    ///< in MKL's name, as in vmsExp
};
/// Null if there is none of that name.
const LibraryFunction* library_function(std::string_view name);
/// Sleef's function on vectors of so many f32 or f64.
std::string sleef_symbol(const LibraryFunction& function, DType type, int32_t lanes);

}  // namespace antegrad::lower
