#pragma once

/// \file
/// Results of custom operators that share memory with an argument or another result, though the
/// schema declares no alias.
///
/// Capture takes such results for memory of their own, so a program may overwrite one while the
/// other is still read. Only a call of the real kernel shows it: each call is checked.

#include <ATen/core/stack.h>

#include <utility>
#include <vector>

#include "ops/op_table.h"

namespace antegrad::runtime {

/// What happens to such a result.
enum class AliasCheck : uint8_t {
  off,    ///< nothing
  warn,   ///< a copy takes its place; the first one of each operator is a warning
  error,  ///< CaptureError
};

/// `wanted` for custom operators whose schema declares no alias; off for others.
AliasCheck alias_check_for(const ops::OpEntry& entry, AliasCheck wanted);

/// Memory, and which argument shows it; -1 for results.
using SeenMemory = std::vector<std::pair<c10::Storage, int32_t>>;

/// The memory of the arguments on the stack. Held during the call: no result gets that of one that
/// dies.
SeenMemory memory_of_arguments(const torch::jit::Stack& stack);

/// Checks the results on the stack.
void check_aliases(const ops::OpEntry& entry, AliasCheck check, SeenMemory seen,
                   torch::jit::Stack& stack);

}  // namespace antegrad::runtime
