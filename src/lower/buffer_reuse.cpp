#include "lower/buffer_reuse.h"

#include <algorithm>
#include <limits>

namespace antegrad::lower {
namespace {

/// Where code touches a buffer: stages, and instructions in them.
struct Touched {
  int32_t first_stage = std::numeric_limits<int32_t>::max();
  int32_t last_stage = -1;
  Id first = std::numeric_limits<Id>::max();
  Id last = -1;
};

std::vector<Touched> touched_buffers(const Kernel& kernel) {
  std::vector<Touched> touched(kernel.buffers.size());
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    for (Id id = kernel.stages[s].begin; id < kernel.stages[s].end; ++id) {
      const Op op = kernel.code[id].op;
      if (op != Op::load && op != Op::store && op != Op::gather) continue;
      Touched& buffer = touched[kernel.code[id].index];
      const auto stage = static_cast<int32_t>(s);
      buffer.first_stage = std::min(buffer.first_stage, stage);
      buffer.last_stage = std::max(buffer.last_stage, stage);
      buffer.first = std::min(buffer.first, id);
      buffer.last = std::max(buffer.last, id);
    }
  }
  return touched;
}

/// Whether both have one element for each iteration, at the same place.
bool same_elements(const Kernel& kernel, const Buffer& a, const Buffer& b,
                   std::span<const int64_t> numbers) {
  const auto value = [&](Extent extent) { return value_of(extent, numbers.data()); };
  if (a.type != b.type || value(a.offset) != value(b.offset)) return false;
  for (size_t d = 0; d < a.strides.size(); ++d) {
    const int64_t stride = value(a.strides[d]);
    if (stride != value(b.strides[d])) return false;
    if (stride == 0 && value(kernel.sizes[d]) != 1) return false;
  }
  return value(a.thread) == 0 && value(b.thread) == 0;
}

}  // namespace

std::vector<BufferReuse> reusable_buffers(const Kernel& kernel, std::span<const int64_t> numbers) {
  std::vector<BufferReuse> reuses;
  if (calls_strips(kernel) && kernel.space != Space::elements) return reuses;
  const std::vector<Touched> touched = touched_buffers(kernel);
  for (size_t w = 0; w < kernel.buffers.size(); ++w) {
    const Buffer& written = kernel.buffers[w];
    if (!written.written || written.read) continue;
    for (size_t r = 0; r < kernel.buffers.size(); ++r) {
      const Buffer& read = kernel.buffers[r];
      if (read.written || !read.gather.is(0)) continue;
      if (!same_elements(kernel, read, written, numbers)) continue;
      const bool before =
          touched[r].last_stage < touched[w].first_stage ||
          (touched[r].last_stage == touched[w].first_stage && touched[r].last < touched[w].first);
      if (before) reuses.push_back({static_cast<int32_t>(w), static_cast<int32_t>(r)});
    }
  }
  return reuses;
}

}  // namespace antegrad::lower
