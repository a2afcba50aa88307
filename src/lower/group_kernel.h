#pragma once

/// \file
/// Makes a kernel of a group of nodes, with the bits of eager ATen or close to them: pointwise
/// operators, and reductions of rows.
///
/// At Level::exact each node is computed by its recipe (recipe.h), on the path that eager took for
/// it: in whole blocks of vectors or in the rest of a row, as its own operands lie in memory. A
/// value of the group is rounded to its element type, as if it had been in memory. Where the paths
/// of a node cannot be told in the loops of the group, or where anything else is not known to have
/// eager's bits, there is no kernel but a reason.
///
/// At Level::close each node is computed by its recipe in one way, wherever an element lies, and
/// values of the group are not rounded to bf16 or f16. A value that is stored is rounded in memory
/// alone: who reads it in the group gets it as it was before. Conversions round, since that is what
/// they are for.
///
/// The structure of a kernel depends neither on sizes nor on strides other than 0 and 1, nor on
/// numbers other than 1 and -1: these are its arguments. So equal keys mean equal kernels, and a
/// new size needs no new one, unless a dimension gets the size 1 or two become contiguous. With a
/// reduction it matters, too, whether rows and the parts of eager's threads are whole blocks of
/// vectors, and whether eager runs on one thread.
///
/// A group with reductions is a kernel over rows: all of its reductions reduce the same
/// dimensions, the innermost ones in memory. One with sums over the outermost is over columns.
///
/// The graph must be verified; its sizes must be numbers. A group is what fusion/groups.h finds.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "graph/hash.h"
#include "lower/aten_recipes.h"
#include "lower/eager_cpu.h"
#include "lower/kernel.h"
#include "lower/level.h"
#include "lower/recipe.h"
#include "lower/storage_readers.h"

namespace antegrad::lower {

/// Memory that a kernel gets: a value of the graph that somebody else makes, or that somebody else
/// reads. One value may be several buffers, with other strides.
struct GroupBuffer {
  ValueId value;
  bool written = false;
  /// Then it is not the value's memory but a row for each part of the kernel, a type_of_sums() for
  /// each element of the value, which must be zeros before. add_sums() makes the value of them.
  bool sums = false;
};

/// Indices that must lie in [begin, end), or be `other`; eager raises an error otherwise. A kernel
/// does not look: who calls it checks all elements of `value` before, and runs the nodes where one
/// lies outside.
struct GroupBound {
  ValueId value;
  int64_t begin = 0;
  int64_t end = 0;
  std::optional<int64_t> other = {};
};

struct GroupKernel {
  Kernel kernel;                     ///< its name holds the key
  std::vector<int64_t> numbers;      ///< its arguments in this graph
  std::vector<GroupBuffer> buffers;  ///< in the order of Kernel::buffers
  std::vector<GroupBound> bounds;
  ThreadSplit split = ThreadSplit::grain;
  Hash128 key;                                   ///< of the structure
  Level level = Level::exact;                    ///< of its recipes
  Capability capability = Capability::baseline;  ///< that it was made for
  Device device = {};                            ///< on which it runs
  /// Whether it is another one with EagerCpu::second_form; false in one that is of that form.
  bool has_second_form = false;
};

/// Why a group has no kernel. Without the node the rest of the group may have one.
struct NoKernel {
  int32_t node = -1;  ///< a position in Graph::nodes
  std::string reason;
};

/// `nodes`: positions in Graph::nodes, ascending, views included. `readers` are those of the graph.
std::variant<GroupKernel, NoKernel> group_kernel(const Graph& graph, std::span<const int32_t> nodes,
                                                 const StorageReaders& readers, const EagerCpu& cpu,
                                                 Level level = Level::exact);

/// ThreadSplit::gelu splits more elements than these.
inline constexpr int64_t kGeluGrain = 16384;

/// How many of `elements` (of parallel_size() rows, in a kernel over rows) each thread but the last
/// gets: part i of a kernel is [i * size, (i + 1) * size). Where it decides which elements lie at
/// the end of a row, it is as in eager.
int64_t elements_of_a_thread(ThreadSplit split, int64_t elements, int64_t threads);

/// The type of GroupBuffer::sums of a value of `type`.
DType type_of_sums(DType type);

/// Adds the `parts` rows, of `count` elements each, of a buffer with GroupBuffer::sums, in their
/// order, as eager does, and rounds once to `type`, that of `result`.
void add_sums(const char* sums, int64_t parts, int64_t count, DType type, char* result);

}  // namespace antegrad::lower
