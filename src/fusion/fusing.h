#pragma once

/// \file
/// The rule for pairs: may what one operator makes be read in the loop that makes it? Partitioners weigh with
/// it (partition/steps.h), and groups are made of such pairs alone (groups.h).

#include "graph/op.h"

namespace antegrad {

/// How an operator, by itself, stands to fusion.
struct Fusing {
  bool generated = false;  ///< generated code can compute it in one loop with its neighbours
  bool takes_any = false;  ///< what makes its inputs, whatever it is, can write into its output
};

inline Fusing fusing_of(const OpTraits& traits) { return {traits.fusible(), traits.fuses_inputs}; }

/// Whether `user` can read what `made` makes without its being written to memory in between.
constexpr bool may_fuse(Fusing made, Fusing user) {
  return user.takes_any || (made.generated && user.generated);
}

}  // namespace antegrad
