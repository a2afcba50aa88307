#pragma once

/// \file
/// Gradients of several micro-batches, which ranks reduce once (docs/distributed.md#accumulation).

#include <memory>
#include <vector>

namespace antegrad {

namespace detail {
class LocalSum;
}

/// While one lives, the gradients of compiled calls that begin are added up on this rank: their
/// backward passes, whenever they run, reduce nothing, and `.grad` stays as it is. The first
/// backward pass of a call that began outside reduces the sum of theirs and its own. Made by
/// Sharded::accumulating() and Replicated::accumulating(), on every rank at the same calls. Scopes
/// may be nested. Backward passes of eager code take no part.
class [[nodiscard]] Accumulating {
 public:
  ~Accumulating();
  Accumulating(Accumulating&&) noexcept = default;
  Accumulating& operator=(Accumulating&&) = delete;

 private:
  friend class Sharded;
  friend class Replicated;
  using Sums = std::vector<std::shared_ptr<detail::LocalSum>>;
  explicit Accumulating(Sums sums);
  Sums sums_;
};

}  // namespace antegrad
