#pragma once

/// \file
/// Storages of roots that the callable resizes, or that have no memory when it begins.
///
/// A resize records no node. Freed memory shows the value that the root had at first, since that is
/// what eager saves for a backward: the tensor itself, which somebody fills again before. The value
/// must not be read before that. Memory that was allocated has no value until a write replaces all
/// of it. What remains of all resizes is said by Input::storage.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>

#include "capture/storage.h"
#include "graph/graph.h"

namespace antegrad::capture {

inline constexpr const char* kResizesAllowed =
    "storages that are freed, and allocated from 0 bytes to as many as their tensors show";

/// What is wrong with a resize of the storage of `tensor`, which has `from` bytes, in words; "" if
/// nothing is.
std::string why_not_resize(const at::Tensor& tensor, int64_t from, int64_t bytes);

/// Of a past call: the bytes that a storage had when it began, if it is known. Null for a call that
/// is to come.
using BytesAtCall = std::function<std::optional<int64_t>(const c10::StorageImpl*)>;

/// What a tracer knows of memory without data.
struct WithoutData {
  /// Of the first values of roots that have no memory, had none, or were freed.
  std::unordered_set<StorageId> storages;
  /// The first use of one in the forward, which the capture refuses unless the memory turns out to
  /// be that of another root, which may have been filled (SharedMemory). Null if there was none.
  std::exception_ptr refusal;
};

}  // namespace antegrad::capture
