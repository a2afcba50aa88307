#pragma once

/// \file
/// Finds memory that a capture has to treat as shared.
///
/// A capture assumes that each tensor has its own memory, which is correct as long as nobody
/// writes. If the assumption turns out wrong, the capture runs again with this knowledge
/// (SharedMemories).

#include <functional>
#include <optional>
#include <utility>

#include "capture/roots.h"

namespace antegrad::capture {

/// A tensor with this storage that the capture has not received but that has a source.
using Holder = std::function<std::optional<std::pair<at::Tensor, Source>>(const c10::StorageImpl*)>;

/// Whether only the capture holds this tensor: it was created inside without the dispatcher, or is
/// gone.
bool is_temporary(const Root& root);
/// Whether the callable wrote the root's data.
bool was_written(const Root& root);
/// Whether the callable gave the root another history than it had.
bool has_new_history(const Root& root);
/// Throws MutationError unless both, which share memory, have one dtype.
void require_one_dtype(const at::Tensor& base, const at::Tensor& member);

/// Memory to add to `known`: written and shared by several roots; views that got a history, which
/// belongs to their base; temporaries that share memory with a tensor that has a source. Empty if
/// all assumptions hold. Sources must be set if there are any. Throws MutationError if tensors of
/// one storage cannot be views of one base.
SharedMemories find_shared_memory(const std::vector<Root>& roots, const SharedMemories& known,
                                  const Holder& holder);

}  // namespace antegrad::capture
