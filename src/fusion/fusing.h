#pragma once

/// \file
/// The rule for pairs of operators: whether one can be computed in the loop that computes its
/// operand. Partitioners use it as a weight (partition/steps.h), and groups consist of such pairs
/// only (groups.h).

#include "graph/op.h"

namespace antegrad {

/// The role of one operator in fusion.
struct Fusing {
  bool generated = false;  ///< generated code can compute it in one loop with its neighbours
  bool takes_any = false;  ///< the producer of an input, whatever it is, can write into its output
};

inline Fusing fusing_of(const OpTraits& traits) { return {traits.fusible(), traits.fuses_inputs}; }

/// Whether `user` can read the result of `made` without a write to memory in between.
constexpr bool may_fuse(Fusing made, Fusing user) {
  return user.takes_any || (made.generated && user.generated);
}

}  // namespace antegrad
