#include "lower/kernel.h"

#include <algorithm>
#include <bit>

namespace antegrad::lower {

int64_t parallel_size(const Kernel& kernel, const int64_t* numbers) {
  int64_t size = 1;
  const size_t dimensions = kernel.sizes.size() - (kernel.space == Space::elements ? 0 : 1);
  for (size_t d = 0; d < dimensions; ++d) size *= value_of(kernel.sizes[d], numbers);
  return size;
}

std::vector<bool> uniform_values(const Kernel& kernel) {
  const int32_t lanes = lane_dimension(kernel);
  std::vector<bool> uniform(kernel.code.size());
  for (size_t id = 0; id < kernel.code.size(); ++id) {
    const Instruction& code = kernel.code[id];
    bool same = std::ranges::all_of(code.operands, [&](Id operand) { return uniform[operand]; });
    if (code.op == Op::load || code.op == Op::gather) {
      same = same && kernel.buffers[code.index].strides[lanes].is(0);
    }
    if (code.op == Op::index) same = code.index != lanes;
    if (code.op == Op::result) same = kernel.space != Space::columns;
    if (code.op == Op::accumulator || code.op == Op::path) same = false;
    uniform[id] = same;
  }
  return uniform;
}

int32_t cascade_level_power(int64_t size) {
  const int32_t log = size <= 2 ? 1 : std::bit_width(static_cast<uint64_t>(size - 1));
  return std::max(4, log / kCascadeLevels);
}

}  // namespace antegrad::lower
