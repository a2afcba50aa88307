#pragma once

/// \file
/// Recompute: whether a result is kept between forward and backward, as a checkpoint says.

#include <cstdint>

namespace antegrad {

/// What a checkpoint says about the results of an operator between forward and backward.
enum class Recompute : uint8_t {
  as_decided,        ///< nothing: the partitioner decides
  must_save,         ///< saved if the backward needs it
  prefer_save,       ///< the same, unless a memory budget requires otherwise
  prefer_recompute,  ///< recomputed, unless saving it is cheaper (Partitioner::min_cut)
  must_recompute,    ///< recomputed if the backward needs it
};

}  // namespace antegrad
