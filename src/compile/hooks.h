#pragma once

/// \file
/// Hooks on saved tensors of one program: which tensors they stand for, and what they compute.

#include <antegrad/options.h>
#include <antegrad/report.h>
#include <antegrad/saved_tensors.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "partition/hooks.h"
#include "partition/packings.h"
#include "partition/partition.h"

namespace antegrad::compiler {

/// A pair of hooks as captured for tensors: hooks see metadata alone, so once for all of the same.
class HookCaptures {
 public:
  explicit HookCaptures(std::shared_ptr<const detail::HookPair> hooks) : hooks_(std::move(hooks)) {}

  const detail::HookPair& pair() const { return *hooks_; }
  /// Throws as capture_hooks() does.
  const HookedTensor& on(const TensorMeta& meta);

 private:
  std::shared_ptr<const detail::HookPair> hooks_;
  std::vector<std::pair<TensorMeta, HookedTensor>> known_;
};

/// Captures the hooks for the saved tensors of a partition that the filter names, on the metadata of each, and says in the
/// report which these are. `first_node`: ids from here on are no node's. Throws CaptureError and its kinds for hooks that
/// cannot be captured, HookError for hooks that do not give back what was saved, and what hooks throw.
Hooked capture_hooks(HookCaptures& hooks, const Partition& partition, HookFilter filter,
                     int32_t first_node, ProgramReport& report);

/// The same for the tensors that a plan packs, each in its way: an index into `ways`.
Hooked capture_packed(std::span<HookCaptures> ways, const Partition& partition, int32_t first_node,
                      ProgramReport& report);

/// What the ways would make of what a plan may save. Tensors that the filter leaves as they are, or that a way cannot be
/// captured for, are left out. `always`: Packings::always.
Packings weigh(std::span<HookCaptures> ways, bool always, const Graph& joint, HookFilter filter,
               const ByteRules& rules);

}  // namespace antegrad::compiler
