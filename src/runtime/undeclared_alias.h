#pragma once

/// \file
/// Results of custom operators that share memory with an argument or another result without
/// declaring it in the schema.
///
/// Capture assumes that such results have their own memory, so a program may overwrite one while
/// the other is still needed. Only a run of the real kernel shows the alias, so each call is
/// checked.

#include <ATen/core/stack.h>

#include <utility>
#include <vector>

#include "ops/op_table.h"

namespace antegrad::runtime {

/// The reaction to an undeclared alias.
enum class AliasCheck : uint8_t {
  off,    ///< nothing
  warn,   ///< the result is replaced by a copy; a warning at the first one of each operator
  error,  ///< CaptureError
};

/// `wanted` for custom operators whose schema declares no alias; otherwise off.
AliasCheck alias_check_for(const ops::OpEntry& entry, AliasCheck wanted);

/// Memory, with the argument that refers to it; -1 for results.
using SeenMemory = std::vector<std::pair<c10::Storage, int32_t>>;

/// The memory of the arguments on the stack. Keeps it alive during the call, so that no result can
/// reuse the memory of an argument.
SeenMemory memory_of_arguments(const torch::jit::Stack& stack);

/// Checks the results on the stack.
void check_aliases(const ops::OpEntry& entry, AliasCheck check, SeenMemory seen,
                   torch::jit::Stack& stack);

}  // namespace antegrad::runtime
