#pragma once

/// \file
/// Finds expressions over symbols for integers of which a few samples are known: the size of a
/// value in several captures, given the sizes of the arguments in each. Used by unify.h.
///
/// Candidates are
///     multiples     2*s0*s1, and fractions of them that are whole in all samples
///     offsets       2*s0 - 1
///     sums          e + 2*s0*s1 for an expression e found before
///     quotients     (s0 + 1) // 2
///     extremes      min(s0, 128), max(e, f) for expressions found before
/// where products have up to four factors, each a symbol or an expression of the last four forms
/// that was found before. Of the multiples, or else of the others, the shortest one that explains
/// all samples is taken. What occurs nearby counts as short, other symbols as long.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "graph/int_expr.h"

namespace antegrad {

/// How many samples are used at most.
inline constexpr size_t kMaxSamples = 8;

/// Values of one integer in the samples. The last one is repeated up to the end.
using Column = std::array<int64_t, kMaxSamples>;

class SizeFit {
 public:
  /// `samples`: values of all symbols; between one and kMaxSamples samples.
  explicit SizeFit(std::vector<std::vector<int64_t>> samples);

  /// The column with this value in the last sample, and in the others that of `earlier`.
  Column column(const IntExpr& earlier, int64_t last) const;

  /// Makes an expression known, which has these values.
  void learn(const IntExpr& expr, const Column& column);

  /// An expression with these values, which is then known; nothing if none was found. The same
  /// column gets the same expression again. `nearby`: expressions from which it may derive. Linear
  /// in the number of known expressions and of products of them, each of which is bounded.
  std::optional<IntExpr> find(const Column& column, const std::vector<IntExpr>& nearby);

 private:
  struct ColumnHash {
    size_t operator()(const Column& column) const;
  };
  struct Known {
    IntExpr expr;
    Column column;
    int length;
  };
  // A product of up to four of the known expressions that are factors.
  struct Product {
    Column column;
    std::array<uint16_t, 4> factors;
    int32_t degree;
  };
  class Search;

  Column column(const IntExpr& expr) const;
  void add_factor(size_t known);
  IntExpr expression(const Product& product) const;

  std::vector<std::vector<int64_t>> samples_;
  std::vector<Known> known_;
  std::unordered_map<Column, size_t, ColumnHash> by_column_;  // into known_
  std::vector<Product> products_;                             // the first one is 1
  // Products by column, divided by its greatest common divisor.
  std::unordered_map<Column, std::vector<size_t>, ColumnHash> by_direction_;
};

}  // namespace antegrad
