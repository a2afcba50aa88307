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

/// A real tensor that the graph reads: an argument, a closure tensor, a constant.
struct Root {
  at::Tensor real;
  at::Tensor wrapper;  ///< functional wrapper over its stand-in; dropped when the capture ends
  ValueId value = kNoValue;
  Snapshot before;     ///< what the real tensor looked like when it was lifted
  Source source = {};  ///< Kind::none until capture() has found where it comes from
  /// The tensor through which the runtime finds it when source.via is not `itself`.
  at::Tensor holder = {};
  /// The root whose memory it shows, -1 when its memory is its own. Then `value` is not read.
  int32_t base = -1;
  /// It is a view of `base` by autograd: history, gradient and versions are the base's.
  bool follows_base = false;
  bool counts_versions = true;      ///< false when another root has the same version counter
  bool inner = false;               ///< Input::inner
  bool met_inside = false;          ///< the callable used `real` itself: it holds it
  torch::autograd::Edge edge = {};  ///< where its gradient arrives
  /// Where gradients arrive that an autograd::Function sends to the real tensor; undefined for
  /// none.
  torch::autograd::Edge direct_edge = {};
  int64_t version = 0;                       ///< of the wrapper when it was made
  const c10::StorageImpl* memory = nullptr;  ///< of the wrapper when it was made
};

/// Where the runtime finds a tensor: see Root.
struct Place {
  Source source;
  at::Tensor holder;
};

/// Memory that several tensors show and the callable writes, or that a temporary shows: in the
/// capture they are views of one base, so that a write through one is seen by the others.
struct SharedMemory {
  /// The tensor that all are views of by autograd; or the elements of the storage in which they
  /// lie.
  at::Tensor base;
  Place place;  ///< of the base
  /// Places of the tensors that have one; others of this storage are temporaries.
  std::unordered_map<const c10::TensorImpl*, Place> members;
};

/// By storage.
using SharedMemories = std::unordered_map<const c10::StorageImpl*, SharedMemory>;

}  // namespace antegrad::capture
