#pragma once

/// \file
/// How a model calls its blocks. A caller that wants checkpoints passes another CallBlock; the
/// models stay as they are.

#include <ATen/core/Tensor.h>

#include <functional>

namespace antegrad::examples {

/// A part of a model from its input to its output. Copies run the same modules.
using Block = std::function<at::Tensor(const at::Tensor& x)>;

/// Returns block(x), computed in any way, for example under a checkpoint.
using CallBlock = std::function<at::Tensor(const Block& block, const at::Tensor& x)>;

inline at::Tensor call_directly(const Block& block, const at::Tensor& x) { return block(x); }

}  // namespace antegrad::examples
