#pragma once

/// \file
/// Code of nodes that are made from windows of an image.

#include <array>
#include <utility>
#include <vector>

#include "lower/aten_windows.h"
#include "lower/code_builder.h"
#include "lower/group_assembly.h"
#include "lower/group_layout.h"

namespace antegrad::lower {

/// The largest element of a window, and its index in the image. NaN is larger than any number; of
/// equal elements it is the first one, of NaNs the last. `result` is the layout of the results,
/// `place` the index of a result along height and width. Adds what is read to `memory`.
std::pair<Id, Id> largest_of_window(const Graph& graph, const WindowCall& call, ValueId base,
                                    const TensorLayout& result, std::array<Id, 2> place,
                                    const GroupLayout& layout, CodeBuilder& code,
                                    std::vector<MemoryUse>& memory);

}  // namespace antegrad::lower
