// The orders of summation, element by element.

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <antegrad/error.h>

#include "lower/interpreter.h"
#include "lower/scalar.h"

namespace antegrad::lower {
namespace {

/// Sums `count` elements with `accumulators` interleaved partial sums, each with levels: after each
/// full stretch of elements a level is added to the next one.
template <class T, class Element>
T cascade_sum(int64_t count, int32_t accumulators, const Element& element) {
  const int64_t steps = count / accumulators;
  const int32_t power = cascade_level_power(steps);
  const int64_t stretch = int64_t{1} << power;
  std::vector<T> sums;
  for (int32_t a = 0; a < accumulators; ++a) {
    T levels[kCascadeLevels] = {};
    for (int64_t i = 0; i < steps; ++i) {
      levels[0] += element(i * accumulators + a);
      if ((i + 1) % stretch != 0) continue;
      for (int32_t level = 1; level < kCascadeLevels; ++level) {
        levels[level] += levels[level - 1];
        levels[level - 1] = 0;
        if (((i + 1) & ((stretch - 1) << (level * power))) != 0) break;
      }
    }
    for (int32_t level = 1; level < kCascadeLevels; ++level) levels[0] += levels[level];
    sums.push_back(levels[0]);
  }
  for (int64_t i = steps * accumulators; i < count; ++i) sums[0] += element(i);
  for (int32_t a = 1; a < accumulators; ++a) sums[0] += sums[a];
  return sums[0];
}

template <class T>
T cascade(const Fold& fold, const std::vector<T>& row) {
  const auto size = static_cast<int64_t>(row.size());
  const int64_t vector = int64_t{fold.lanes} * fold.accumulators;
  if (size < vector) {
    return cascade_sum<T>(size, kCascadeAccumulators, [&](int64_t i) { return row[i]; });
  }
  const int64_t vectors = size / vector;
  T sum = 0;
  for (int64_t i = vectors * vector; i < size; ++i) sum += row[i];
  for (int32_t lane = 0; lane < fold.lanes; ++lane) {
    sum += cascade_sum<T>(vectors, kCascadeAccumulators, [&](int64_t i) {
      T element = row[i * vector + lane];
      for (int32_t part = 1; part < fold.accumulators; ++part) {
        element += row[i * vector + int64_t{part} * fold.lanes + lane];
      }
      return element;
    });
  }
  return sum;
}

template <class T>
T product_and_sum(bool fused, T a, T b, T c) {
  return fused ? std::fma(a, b, c) : a * b + c;
}

template <class T>
T vectors(const Fold& fold, const std::vector<T>& row) {
  const auto lanes = static_cast<size_t>(fold.lanes);
  const size_t whole = row.size() / lanes * lanes;
  std::vector<T> sums(lanes);
  for (size_t i = 0; i < whole; ++i) sums[i % lanes] += row[i];
  if (fold.merge == Merge::tree) {
    for (size_t half = lanes / 2; half > 0; half /= 2) {
      for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
  } else {
    for (size_t lane = 1; lane < lanes; ++lane) sums[0] += sums[lane];
  }
  for (size_t i = whole; i < row.size(); ++i) sums[0] += row[i];
  return sums[0];
}

/// Mean and sum of squared differences of some elements.
template <class T>
struct Moments {
  int64_t count = 0;
  T mean = 0;
  T squares = 0;

  void add(bool fused, const Moments& other) {
    const int64_t total = count + other.count;
    const T share = total == 0 ? T(0) : static_cast<T>(other.count) / static_cast<T>(total);
    const T difference = other.mean - mean;
    const T sum = squares + other.squares;
    const T step = difference * share;
    squares = product_and_sum(fused, step, difference * static_cast<T>(count), sum);
    mean = mean + step;
    count = total;
  }
};

/// The moments of one lane: chunks of vectors, merged in a binary tree.
template <class T>
Moments<T> lane_moments(const Fold& fold, const std::vector<T>& row, int32_t lane) {
  const bool fused = fold.fused != Fused::none;
  const int64_t vector = int64_t{fold.lanes} * fold.accumulators;
  const int64_t vectors = static_cast<int64_t>(row.size()) / vector;
  const int64_t chunks = (vectors + kMomentsChunk - 1) / kMomentsChunk;
  const int32_t depth =
      chunks <= 1 ? 0 : static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(chunks - 1)));
  std::vector<Moments<T>> stack(static_cast<size_t>(std::max(depth, 1)));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t first = chunk * kMomentsChunk;
    const int64_t count = std::min<int64_t>(kMomentsChunk, vectors - first);
    for (int32_t part = 0; part < fold.accumulators; ++part) {
      Moments<T> own{count};
      for (int64_t j = 0; j < count; ++j) {
        const T x = row[(first + j) * vector + int64_t{part} * fold.lanes + lane];
        const T difference = x - own.mean;
        own.mean = product_and_sum(fused, T(1) / static_cast<T>(j + 1), difference, own.mean);
        own.squares = product_and_sum(fused, difference, x - own.mean, own.squares);
      }
      stack[0].add(fused, own);
    }
    int64_t mask = chunk + 1;
    for (int32_t level = 1; level < depth && (mask & 1) == 0; ++level, mask >>= 1) {
      stack[level].add(fused, stack[level - 1]);
      stack[level - 1] = {};
    }
  }
  for (int32_t level = 1; level < depth; ++level) stack[0].add(fused, stack[level]);
  return stack[0];
}

template <class T>
Moments<T> moments(const Fold& fold, const std::vector<T>& row) {
  const bool fused = fold.fused != Fused::none;
  const int64_t vector = int64_t{fold.lanes} * fold.accumulators;
  const int64_t vectors = static_cast<int64_t>(row.size()) / vector;
  Moments<T> all;
  for (size_t i = static_cast<size_t>(vectors * vector); i < row.size(); ++i) {
    const T difference = row[i] - all.mean;
    all.mean += difference / static_cast<T>(++all.count);
    all.squares =
        product_and_sum(fold.fused == Fused::all, difference, row[i] - all.mean, all.squares);
  }
  const int64_t added = vectors * fold.accumulators;
  for (int32_t lane = 0; lane < fold.lanes; ++lane) {
    const Moments<T> other = lane_moments(fold, row, lane);
    const int64_t total = all.count + added;
    const T share = total == 0 ? T(0) : static_cast<T>(added) / static_cast<T>(total);
    const T difference = other.mean - all.mean;
    all.mean = product_and_sum(fused, share, difference, all.mean);
    all.squares = all.squares + product_and_sum(fused, difference * difference * share,
                                                static_cast<T>(all.count), other.squares);
    all.count = total;
  }
  return all;
}

/// Sums of blocks, and from them sums of 2, 4, 8, ... blocks, as a binary counter makes them.
template <class T>
T pairwise(const Fold& fold, const std::vector<T>& row) {
  const auto lanes = static_cast<size_t>(fold.lanes);
  const size_t step = lanes * static_cast<size_t>(fold.accumulators);
  std::vector<std::vector<T>> levels;
  size_t blocks = 0;
  for (size_t begin = 0; begin < row.size(); begin += step * kPairwiseVectors) {
    const size_t end = std::min(begin + step * kPairwiseVectors, row.size());
    const size_t whole = begin + (end - begin) / step * step;
    std::vector<T> sums(step);
    for (size_t i = begin; i < end; ++i)
      sums[i < whole ? (i - begin) % step : (i - whole) % lanes] += row[i];
    for (size_t half = step / 2; half >= lanes; half /= 2) {
      for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    size_t level = 0;
    for (; (blocks >> level & 1) != 0; ++level) {
      for (size_t i = 0; i < lanes; ++i) sums[i] += levels[level][i];
    }
    levels.resize(std::max(levels.size(), level + 1));
    levels[level] = std::move(sums);
    ++blocks;
  }
  std::vector<T> sums(lanes);
  for (size_t level = 0; level < levels.size(); ++level) {
    if ((blocks >> level & 1) == 0) continue;
    for (size_t i = 0; i < lanes; ++i) sums[i] += levels[level][i];
  }
  for (size_t half = lanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

/// `combine(a, b)` of accumulators and of the next elements of blocks, b being the later one; of
/// lanes and of the elements beyond, a.
uint64_t blocks(const Fold& fold, DType type, std::span<const uint64_t> row) {
  const auto combined = [&](uint64_t a, uint64_t b) { return evaluate(fold.combine, type, a, b); };
  const auto lanes = static_cast<size_t>(fold.lanes);
  const auto count = static_cast<size_t>(fold.accumulators);
  const size_t block = lanes * count;
  const size_t whole = row.size() / block * block;
  std::vector<uint64_t> single;
  if (whole > 0) {
    std::vector<uint64_t> all(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(block));
    for (size_t i = block; i < whole; ++i) all[i % block] = combined(all[i % block], row[i]);
    for (size_t step = 1; step < count; step *= 2) {
      for (size_t i = 0; i < block; ++i) {
        if (i / lanes % (2 * step) == 0) all[i] = combined(all[i], all[i + step * lanes]);
      }
    }
    single.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(lanes));
  }
  single.insert(single.end(), row.begin() + static_cast<std::ptrdiff_t>(whole), row.end());
  uint64_t result = single[0];
  for (size_t i = 1; i < single.size(); ++i) result = combined(single[i], result);
  return result;
}

template <class T>
Reduced reduced(const Fold& fold, std::span<const uint64_t> bits, int64_t column, int64_t columns) {
  std::vector<T> row;
  for (const uint64_t element : bits) row.push_back(from_bits<T>(element));
  if (fold.order == Order::cascade) return {to_bits(cascade(fold, row)), 0};
  if (fold.order == Order::vectors) return {to_bits(vectors(fold, row)), 0};
  if (fold.order == Order::pairwise) return {to_bits(pairwise(fold, row)), 0};
  if (fold.order == Order::columns) {
    const int32_t accumulators = column_accumulators(column, columns, fold.lanes);
    return {to_bits(cascade_sum<T>(static_cast<int64_t>(row.size()), accumulators,
                                   [&](int64_t i) { return row[i]; })),
            0};
  }
  const Moments<T> result = moments(fold, row);
  return {to_bits(result.mean), to_bits(result.squares)};
}

}  // namespace

Reduced reduce_in_order(const Fold& fold, DType type, std::span<const uint64_t> row, int64_t column,
                        int64_t columns) {
  AG_CHECK(fold.order != Order::lanes, "the interpreter folds lanes itself");
  if (fold.order == Order::blocks) return {row.empty() ? 0 : blocks(fold, type, row), 0};
  return type == DType::f64 ? reduced<double>(fold, row, column, columns)
                            : reduced<float>(fold, row, column, columns);
}

}  // namespace antegrad::lower
