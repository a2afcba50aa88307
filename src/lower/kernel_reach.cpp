#include "lower/kernel_reach.h"

#include <algorithm>
#include <bit>
#include <set>

#include <fmt/format.h>

namespace antegrad::lower {
namespace {

/// Multiples of the elements of a vector, of a block of vectors, and of a step of most sums; and of
/// the rows that go side by side.
constexpr int64_t kWhole = 512, kWholeRows = 16;
/// Beyond these powers of two, more elements, or more rows, are only more of the same: eager splits
/// 32768 elements among threads, and no limit of the printer is higher. But the sum of a longer row
/// has more levels.
constexpr int kFarElements = 17, kFarRows = 5, kAnywhere = 64;

/// Tells sizes below, at and above a power of two apart: limits of ATen and of the printer are
/// such.
std::string class_of(int64_t size, int furthest, int64_t whole = kWhole) {
  const auto width = [&](int64_t number) {
    return number < 0 ? -1
                      : std::min(static_cast<int>(std::bit_width(static_cast<uint64_t>(number))),
                                 furthest);
  };
  return fmt::format("{},{}+{}", width(size - 1), width(size), size % whole);
}

/// Along columns, a sum gets a further level at each power of 16 (Order::columns).
std::string class_of_column(int64_t size) {
  int level = 0;
  for (int64_t rows = 16; rows <= size; rows *= 16) ++level;
  return fmt::format("{}+{}", level, size % kWhole);
}

/// The arguments that the code reads as numbers, not as sizes or strides.
std::set<int32_t> scalars(const Kernel& kernel) {
  std::set<int32_t> found;
  for (const Instruction& code : kernel.code) {
    if (code.op == Op::number) found.insert(code.index);
  }
  return found;
}

/// Over how many dimensions its paths count.
std::set<int32_t> counted_dimensions(const Kernel& kernel) {
  std::set<int32_t> found;
  for (const Instruction& code : kernel.code) {
    if (code.op == Op::path) found.insert(code.index);
  }
  return found;
}

}  // namespace

bool lies_across_rows(const Kernel& kernel, const Buffer& buffer) {
  const size_t dimensions = kernel.sizes.size();
  if (kernel.space != Space::rows || kernel.inner != 1 || dimensions < 2) return false;
  if (buffer.read == buffer.written || !buffer.thread.is(0) || !buffer.gather.is(0)) return false;
  const Extent along = buffer.strides.back();
  return buffer.strides[dimensions - 2].is(1) && !along.is(0) && !along.is(1);
}

std::string reach_of(const Kernel& kernel, std::span<const int64_t> numbers, int64_t part) {
  const auto dimensions = static_cast<int32_t>(kernel.sizes.size());
  const bool rows = kernel.space != Space::elements;
  const int32_t outer = dimensions - (rows ? kernel.inner : 0);
  const auto size = [&](int32_t d) { return value_of(kernel.sizes[d], numbers.data()); };
  const auto flat_from = [&](int32_t begin) {
    int64_t elements = 1;
    for (int32_t d = begin; d < dimensions; ++d) elements *= size(d);
    return elements;
  };

  // All elements, and each dimension that vectors lie along or that is reduced.
  std::string reach = class_of(flat_from(0), kFarElements, rows ? 1 : kWhole);
  for (int32_t d = std::min(lane_dimension(kernel), outer); d < dimensions; ++d) {
    if (d < outer || !rows) {
      reach += " " + class_of(size(d), kFarElements);
    } else if (kernel.space == Space::columns) {
      reach += " " + class_of_column(size(d));
    } else {
      reach += " " + class_of(size(d), kAnywhere);
    }
  }

  // Where the parts of threads begin and end, also in the rows that paths count along.
  const int64_t all = parallel_size(kernel, numbers.data());
  const bool several = all > part;
  const auto class_of_part = [&](int64_t size) {
    return kernel.space == Space::rows ? class_of(size, kFarRows, kWholeRows)
                                       : class_of(size, kFarElements);
  };
  reach += "; " + class_of_part(several ? part : all);
  if (several) reach += " and " + class_of_part(all - (all - 1) / part * part);
  const int64_t unit = rows ? flat_from(outer) : 1;
  for (const int32_t over : counted_dimensions(kernel)) {
    const int64_t row = flat_from(dimensions - over);
    reach += fmt::format("; over {}: {}", over, class_of(row, kFarElements));
    if (several && row > 0) reach += " " + class_of(part * unit % row, kFarElements);
  }
  // Blocks of rows that are transposed end where the last outer dimension does.
  const bool turned = std::ranges::any_of(
      kernel.buffers, [&](const Buffer& buffer) { return lies_across_rows(kernel, buffer); });
  if (turned) reach += "; " + class_of(size(outer - 1), kFarRows, kWholeRows);
  reach += ";";
  for (const Buffer& buffer : kernel.buffers) {
    const bool far = may_be_far(buffer) && flat_from(0) * byte_size(buffer.type) >= kFarBytes;
    if (far) reach += " far " + buffer.name;
  }
  for (const int32_t scalar : scalars(kernel)) reach += fmt::format(" {}", numbers[scalar]);
  return reach;
}

}  // namespace antegrad::lower
