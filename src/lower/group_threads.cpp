// What threads do with a kernel: which elements each gets, and how their sums become one.

#include <algorithm>

#include "lower/code_builder.h"
#include "lower/group_kernel.h"
#include "lower/scalar.h"

namespace antegrad::lower {
namespace {

constexpr int64_t kGrain = 32768;

/// Of ThreadSplit::parts: enough for many threads, and each with more rows than their sums have.
constexpr int64_t kMostParts = 64, kRowsOfAPart = 16;

template <class T>
void add_parts(const T* sums, int64_t parts, int64_t count, DType type, char* result) {
  const DType wide = type_of_sums(type);
  for (int64_t i = 0; i < count; ++i) {
    T sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += sums[part * count + i];
    uint64_t bits = to_bits(sum);
    if (type != wide) bits = evaluate({Op::cast, type, {}, 0, -1}, wide, &bits);
    write_element(type, result + static_cast<size_t>(i) * byte_size(type), bits);
  }
}

}  // namespace

DType type_of_sums(DType type) { return arithmetic_type(type); }

void add_sums(const char* sums, int64_t parts, int64_t count, DType type, char* result) {
  if (type_of_sums(type) == DType::f64) {
    add_parts(reinterpret_cast<const double*>(sums), parts, count, type, result);
  } else {
    add_parts(reinterpret_cast<const float*>(sums), parts, count, type, result);
  }
}

int64_t elements_of_a_thread(ThreadSplit split, int64_t elements, int64_t threads) {
  const bool all_threads = split == ThreadSplit::gelu && elements > kGeluGrain;
  const int64_t grain = all_threads ? std::max<int64_t>(1, elements / threads) : kGrain;
  if (split == ThreadSplit::parts) {
    return std::max(kRowsOfAPart, (elements + kMostParts - 1) / kMostParts);
  }
  if (threads <= 1 || split == ThreadSplit::whole) return elements;
  if (split == ThreadSplit::rows) return (elements + threads - 1) / threads;
  if (elements < grain) return elements;
  const int64_t parts = std::min(threads, (elements + grain - 1) / grain);
  return (elements + parts - 1) / parts;
}

}  // namespace antegrad::lower
