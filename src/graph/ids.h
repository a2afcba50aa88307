#pragma once

/// \file
/// Ids of values and storages, and their use as indices.

#include <cstddef>
#include <cstdint>

namespace antegrad {

using ValueId = int32_t;
using StorageId = int32_t;
inline constexpr ValueId kNoValue = -1;

/// An id, or a position counted in 32 bits, as an index. It must not be negative.
constexpr size_t at(int32_t id) { return static_cast<size_t>(id); }

}  // namespace antegrad
