#pragma once

/// \file
/// Unifies graphs of one callable that differ in sizes only.
///
/// A callable that is captured for several sizes of its arguments often gives the same graph, but
/// for integers: sizes, strides, offsets and integer arguments of operators. A ShapeFamily holds
/// such graphs as one, in which these integers are expressions over symbols. The symbols are sizes
/// of arguments. So what is decided on the family's graph (a partition, the structure of a program)
/// serves all sizes.
///
/// The expressions are inferred from samples and may be wrong for other sizes. Therefore each new
/// size is captured as well, and first_difference() compares this capture with the family's graph
/// before the family serves the size.
///
/// A symbol never stands for 0: contiguous strides of empty tensors follow another rule, so a size
/// of 0 gets a graph of its own. A captured graph has no symbols.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// The value of each symbol of a family's graph in a capture: the size of the first argument
/// dimension that is this symbol. 0 if the capture lacks this dimension.
std::vector<int64_t> symbol_values(const Graph& symbolic, const Graph& captured);

/// Describes the first difference of `captured` from the family's graph at these values of its
/// symbols; empty if there is none. Compares what first_difference() of two graphs compares, and
/// does not build the graph of substitute(). An expression that overflows is a difference.
std::string first_difference(const Graph& symbolic, const std::vector<int64_t>& symbols,
                             const Graph& captured);

/// The graph with a number for each expression, and without symbols. Throws GraphError if one
/// overflows 64 bits.
Graph substitute(const Graph& symbolic, const std::vector<int64_t>& symbols);

/// Graphs of one callable that differ in sizes only. Not synchronised.
class ShapeFamily {
 public:
  /// The family of one captured graph.
  explicit ShapeFamily(Graph first);

  /// Takes a captured graph into the family: changes expressions until they hold for it and for the
  /// samples. Returns an empty text, or why this cannot be done; then nothing has changed.
  ///
  /// A size of an argument becomes a symbol when it changes. Sizes that were equal in all graphs
  /// share a symbol, and get two when they differ. Symbols and their numbers persist. An expression
  /// that holds stays. Takes milliseconds if expressions change.
  ///
  /// After a change, sizes that are not among the samples have to be verified again.
  std::string unify(const Graph& captured);

  /// The graph over symbols; concrete while nothing differed.
  const Graph& graph() const { return graph_; }
  /// How often expressions changed. What was verified before the last change may no longer hold.
  int32_t changes() const { return changes_; }
  /// Values of all symbols in the samples, at most kMaxSamples (size_fit.h).
  std::vector<std::vector<int64_t>> samples() const { return symbols_of(samples_); }

 private:
  struct Sample {
    std::vector<int64_t> symbols;
    bool changed = true;  // it changed expressions
  };
  static std::vector<std::vector<int64_t>> symbols_of(const std::vector<Sample>& samples);
  static void drop_one_beyond(size_t limit, std::vector<Sample>& samples);

  Graph graph_;
  std::vector<Sample> samples_;
  int32_t changes_ = 0;
};

}  // namespace antegrad
