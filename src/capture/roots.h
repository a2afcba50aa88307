#pragma once

/// \file
/// Real tensors that a capture reads, and how they share memory.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <cstdint>
#include <unordered_map>

#include "capture/storage.h"
#include "capture/untouched.h"
#include "graph/graph.h"

namespace antegrad::capture {

/// A real tensor that the graph reads: an argument, a closure tensor or a constant.
struct Root {
  at::Tensor real;
  at::Tensor wrapper;  ///< functional wrapper over its stand-in; dropped when the capture ends
  ValueId value = kNoValue;
  Snapshot before;     ///< the state of the real tensor when it was lifted
  Source source = {};  ///< Kind::none until capture() has found the source
  /// The tensor through which the runtime finds it, if source.via is not `itself`.
  at::Tensor holder = {};
  /// The root whose memory it shares, -1 if it has its own. If set, `value` is unused.
  int32_t base = -1;
  /// Whether autograd treats it as a view of `base`: history, gradient and versions are the base's.
  bool follows_base = false;
  bool counts_versions = true;      ///< false if another root has the same version counter
  bool inner = false;               ///< Input::inner
  bool met_inside = false;          ///< the callable used `real` itself, so it holds it
  torch::autograd::Edge edge = {};  ///< the edge at which its gradient arrives
  /// The edge at which gradients arrive that an autograd::Function sends to the real tensor;
  /// undefined if none.
  torch::autograd::Edge direct_edge = {};
  int64_t version = 0;                       ///< of the wrapper when it was made
  const c10::StorageImpl* memory = nullptr;  ///< of the wrapper when it was made
  /// Bytes of its storage when the call began, and now; for the roots that share memory those of
  /// the base alone.
  int64_t first_bytes = 0;
  int64_t bytes = 0;
  int32_t resizes = 0;  ///< of its storage: they count as writes, and advance no version
};

/// How the runtime finds a tensor: see Root.
struct Place {
  Source source;
  at::Tensor holder;
};

/// Memory shared by several tensors and written by the callable, or shared with a temporary. During
/// capture these tensors are views of one base, so that a write through one is visible in the
/// others.
struct SharedMemory {
  /// The base of all by autograd, or the elements of the storage that contain them.
  at::Tensor base;
  Place place;  ///< of the base
  /// The place of each tensor that has one. Other tensors of this storage are temporaries.
  std::unordered_map<const c10::TensorImpl*, Place> members;
};

/// By storage.
using SharedMemories = std::unordered_map<const c10::StorageImpl*, SharedMemory>;

}  // namespace antegrad::capture
