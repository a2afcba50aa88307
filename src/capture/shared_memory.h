#pragma once

/// \file
/// Finds memory that a capture has to treat as shared.
///
/// A capture takes each tensor's memory for its own, which is right while nobody writes. Where that
/// turns out wrong the capture runs again and knows it (SharedMemories).

#include <functional>
#include <optional>
#include <utility>

#include "capture/roots.h"

namespace antegrad::capture {

/// A tensor that the capture has not met but that has a source, for a storage.
using Holder = std::function<std::optional<std::pair<at::Tensor, Source>>(const c10::StorageImpl*)>;

/// Whether only the capture holds this tensor: it was made inside without the dispatcher, or is
/// gone.
bool is_temporary(const Root& root);
/// Whether the callable wrote the root's data.
bool was_written(const Root& root);
/// Whether the callable gave the root another history than it came with.
bool has_new_history(const Root& root);

/// Memory to add to `known`: written and shown by several roots; views that got a history, which is
/// their base's; temporaries that show memory of something with a source. Empty when all is well.
/// Sources must be set where there are any. Throws MutationError when tensors of one storage cannot
/// be views of one base.
SharedMemories find_shared_memory(const std::vector<Root>& roots, const SharedMemories& known,
                                  const Holder& holder);

}  // namespace antegrad::capture
