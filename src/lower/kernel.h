#pragma once

/// \file
/// The loop IR: what one generated kernel computes, as plain data.
///
/// A kernel runs stages over an iteration space. Sizes, strides and scalars are arguments, so one
/// kernel serves all sizes; a stride that is stated as a constant is structure. Expressions are in
/// SSA form with element types. Every rounding is an instruction of its own, and every reduction
/// states its order of summation, so a kernel has one result, to the bit, on every machine and
/// for every width of vectors. docs/loop-ir.md describes the text form and each operation.
///
/// A `Kernel` may be changed freely; verify() states what must hold of it before it is interpreted
/// or printed as C.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/dtype.h"
#include "lower/op.h"

namespace antegrad::lower {

/// An instruction, and the value that it defines: its position in Kernel::code.
using Id = int32_t;

/// An argument of a kernel. Integers (i64) are sizes, strides and offsets; scalars (f32, f64) are
/// passed as the bits of a double.
struct Number {
  std::string name;
  DType type = DType::i64;
  friend bool operator==(const Number&, const Number&) = default;
};

/// A size, stride or offset: the integer argument `number`, or a constant where that is -1.
struct Extent {
  int32_t number = -1;
  int64_t constant = 0;
  bool is(int64_t value) const { return number < 0 && constant == value; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Memory that a kernel reads or writes, in elements of `type`. The element of an iteration lies at
///   offset + sum of strides[d] * index[d] + thread * (number of the thread) + gather * (index)
/// elements from the address that the caller gives; the last term is that of Op::gather.
///
/// A written buffer may share memory with another one only if both have one type, offset and
/// strides, and each of its elements is read by none but the iteration (the row, in kernels over
/// rows and columns) that writes it. Rows of a call run
/// in their order, so one that is read and written may hold sums over the rows of a thread.
struct Buffer {
  std::string name;
  DType type = DType::f32;
  bool read = false;
  bool written = false;
  std::vector<Extent> strides;  ///< one for each dimension of the space
  Extent offset;
  Extent thread;  ///< distance between the parts of threads, for sums of each thread
  Extent gather;  ///< stride of the index of Op::gather
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

/// How a function is called.
enum class CallForm : uint8_t {
  lane,    ///< T symbol(T, ...), for each element
  vector,  ///< V symbol(V, ...), for `lanes` elements in a GNU vector
  strip,   ///< void symbol(int n, const T* in, T* out, long mode), for arrays, as MKL's VML
};

/// A function from elements of one type to one of the same type. Its result for an element must
/// not depend on other elements. `text`, where not empty, is C that defines `symbol`; otherwise
/// the symbol is external.
struct Function {
  std::string name;
  DType type = DType::f32;
  int32_t arity = 1;
  CallForm form = CallForm::lane;
  int32_t lanes = 1;  ///< of CallForm::vector
  int64_t mode = 0;   ///< of CallForm::strip
  std::string symbol;
  std::string text;
  friend bool operator==(const Function&, const Function&) = default;
};

/// One operation. Which fields mean what is stated with each Op.
struct Instruction {
  Op op = Op::constant;
  DType type = DType::f32;  ///< of the value; of the stored element for Op::store
  std::vector<Id> operands;
  uint64_t bits = 0;
  int32_t index = -1;
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// How a Stage runs its code.
enum class StageKind : uint8_t {
  each,  ///< for each index of the inner dimension
  row,   ///< once for a row: what it reads and writes does not depend on the inner index
  fold,  ///< a reduction over the inner dimension, in the order of its Fold
};

/// The order of a reduction. docs/loop-ir.md defines each to the bit.
enum class Order : uint8_t {
  lanes,     ///< `accumulators` vectors of `lanes` partial results, merged at the end
  cascade,   ///< ATen's cascade_sum along a row: 4 accumulators, 4 levels
  columns,   ///< ATen's cascade_sum over columns: 1 accumulator in full blocks of columns, else 4
  vectors,   ///< whole vectors in one, whose lanes are merged; then the elements beyond, one by one
  moments,   ///< ATen's RowwiseMoments: mean, and sum of squared differences from it
  blocks,    ///< ATen's vectorized_inner_reduction: blocks of vectors, merged; then single elements
  pairwise,  ///< blocks of vectors, added in pairs: ours, for sums in any order
};

/// How partial results of lanes become one.
enum class Merge : uint8_t { tree, sequence };

/// Which products of Order::moments are added in one rounding: ATen's compiler decided.
enum class Fused : uint8_t {
  vectors,  ///< those of vectors and of their merges, not those of the elements beyond
  all,
  none,
};

struct Fold {
  Order order = Order::lanes;
  int32_t lanes = 1;
  /// Of lanes, blocks and pairwise; of cascade and moments, vectors that are added first.
  int32_t accumulators = 1;
  Merge merge = Merge::sequence;
  Op combine = Op::add;          ///< merges partial results of lanes, and elements of blocks
  Fused fused = Fused::vectors;  ///< of Order::moments
  /// Of Order::lanes: each segment of the row is reduced apart, and what they give is added in f64,
  /// in their order, to 0.
  bool segments = false;
  Id value = -1;  ///< what the code yields: the next accumulator, or the summed element
  friend bool operator==(const Fold&, const Fold&) = default;
};

/// A part of the code, [begin, end). A fold's last instructions are Op::result.
struct Stage {
  StageKind kind = StageKind::each;
  Id begin = 0;
  Id end = 0;
  Fold fold;
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// The iteration space. In all of them the last dimension is the inner one, over which stages run;
/// in `rows` it may be the last two.
enum class Space : uint8_t {
  elements,  ///< one stage `each`; threads split the flat elements
  rows,      ///< threads split the flat outer dimensions; lanes run along the inner one
  columns,   ///< as rows, but lanes run along the last outer dimension
};

struct Kernel {
  std::string name;
  Space space = Space::elements;
  std::vector<Extent> sizes;  ///< at least one; of `columns` two
  /// How many of them, the last ones, make a row. A row of two dimensions has a segment for each
  /// index of the first of them; there is one outer dimension then.
  int32_t inner = 1;
  std::vector<Number> numbers;
  std::vector<Function> functions;
  std::vector<Buffer> buffers;
  std::vector<Instruction> code;
  std::vector<Stage> stages;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// The dimension along which vectors lie.
inline int32_t lane_dimension(const Kernel& kernel) {
  return static_cast<int32_t>(kernel.sizes.size()) - (kernel.space == Space::columns ? 2 : 1);
}

/// Number of indices of the dimensions that `[begin, end)` of a call runs over.
int64_t parallel_size(const Kernel& kernel, const int64_t* numbers);

/// Number of indices of the whole space.
int64_t space_size(const Kernel& kernel, const int64_t* numbers);

/// Whether the kernel calls functions for arrays (CallForm::strip).
bool calls_strips(const Kernel& kernel);

/// Bytes of a result that is written past the caches, where the CPU can: whoever reads it would not
/// find it there.
inline constexpr int64_t kFarBytes = int64_t{1} << 25;

/// Whether that holds for a buffer where it is large: all elements of the space are written to it.
inline bool may_be_far(const Buffer& buffer) {
  return buffer.written && !buffer.read &&
         std::ranges::none_of(buffer.strides, [](Extent stride) { return stride.is(0); });
}

/// Whether a written buffer and another one may share memory for some arguments.
bool may_share_memory(const Buffer& a, const Buffer& b);

inline int64_t value_of(Extent extent, const int64_t* numbers) {
  return extent.number < 0 ? extent.constant : numbers[extent.number];
}

/// Marks each value that is the same for all lanes of a vector.
std::vector<bool> uniform_values(const Kernel& kernel);

/// Whether a stage is a fold that merges one element after the other into a single accumulator,
/// which nothing else reads: numbers that do not depend on paths.
bool folds_in_order(const Kernel& kernel, const Stage& stage);

/// The number of accumulators that Order::columns takes for a column of a kernel of `columns`.
inline int32_t column_accumulators(int64_t column, int64_t columns, int64_t lanes) {
  const int64_t block = 4 * (columns < lanes ? 1 : lanes);
  return column < columns / block * block ? 1 : 4;
}

/// log2 of the rows that a cascade adds before it adds into the next level.
int32_t cascade_level_power(int64_t size);
inline constexpr int32_t kCascadeLevels = 4;
inline constexpr int32_t kCascadeAccumulators = 4;
/// Vectors of a chunk of Order::moments.
inline constexpr int32_t kMomentsChunk = 16;
/// Vectors that an accumulator of Order::pairwise adds in a block.
inline constexpr int32_t kPairwiseVectors = 16;

}  // namespace antegrad::lower
