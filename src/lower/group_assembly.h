#pragma once

/// \file
/// The last step from a group to a kernel: puts code over atoms into a space of few dimensions,
/// with sizes, strides and numbers as arguments.

#include <cstdint>
#include <map>
#include <vector>

#include "lower/code_builder.h"
#include "lower/group_kernel.h"
#include "lower/group_layout.h"
#include "lower/group_rows.h"

namespace antegrad::lower {

/// Memory that code loads from or stores to; Instruction::index counts in these.
struct MemoryUse {
  ValueId value;
  DType type;
  std::map<int32_t, int64_t> strides;  ///< by atom; others have 0
  int64_t offset = 0;                  ///< from the value's first element
  bool written = false;
  int64_t gather = 0;  ///< stride of the index of Op::gather
  int64_t sums = 0;    ///< of GroupBuffer::sums, read and written: elements of a row
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

/// The place of a use in the list, to which it is added if no equal one is there.
int32_t place_of(std::vector<MemoryUse>& memory, MemoryUse use);

/// Op::path counts its rows in atoms from the inner end of the space on, Op::index names a place in
/// its order. What no store needs is dropped. Throws NoKernel if a row is no single dimension for
/// all memory.
GroupKernel assemble_kernel(const CodeBuilder& code, const std::vector<MemoryUse>& memory,
                            const GroupLayout& layout, const GroupSpace& space);

}  // namespace antegrad::lower
