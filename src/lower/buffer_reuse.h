#pragma once

/// \file
/// Which written buffers of a kernel may lie in the memory of a read one.

#include <cstdint>
#include <span>
#include <vector>

#include "lower/kernel.h"

namespace antegrad::lower {

/// Positions in Kernel::buffers.
struct BufferReuse {
  int32_t written = -1;
  int32_t read = -1;
  friend bool operator==(const BufferReuse&, const BufferReuse&) = default;
};

/// Pairs of one element type, offset and strides, so that each iteration reads the very element
/// that it writes, and no element is read after it was written. `numbers` are the kernel's
/// arguments. Functions of strips divide a loop into several. Over elements, the first of these
/// reads all that the kernel reads of a strip; over rows and columns later ones read some elements
/// again, and then there are no pairs.
std::vector<BufferReuse> reusable_buffers(const Kernel& kernel, std::span<const int64_t> numbers);

}  // namespace antegrad::lower
