#pragma once

/// \file
/// Hooks on saved tensors of one program: which tensors they stand for, and what they compute.

#include <antegrad/options.h>

#include <span>
#include <string>
#include <vector>

#include "hooks/hook_capture.h"
#include "ops/attrs.h"
#include "partition/hooks/hooks.h"
#include "partition/hooks/packings.h"
#include "partition/partition.h"

namespace antegrad::hooks {

struct CapturedHooks {
  Hooked hooked;
  std::vector<c10::IValue> objects;  ///< by Hooked::object_names
  // For the report: whose hooks, what they stand for, and what they do not stand for, with the
  // reason.
  std::string names;
  std::vector<std::string> hooked_texts;
  std::vector<std::string> not_hooked_texts;
};

/// Captures the hooks for the saved tensors of a partition that the filter names, on the metadata
/// of each. `first_node`: ids from here on are no node's. Throws what HookCaptures::on() throws.
CapturedHooks capture_hooks(HookCaptures& hooks, const Partition& partition, HookFilter filter,
                            int32_t first_node);

/// The same for the tensors that a plan packs, each in its way: an index into `ways`.
CapturedHooks capture_packed(std::span<HookCaptures> ways, const Partition& partition,
                             int32_t first_node);

/// The tables of a graph that hooks with these objects were put into.
ops::AttrTables with_objects(ops::AttrTables tables, const std::vector<c10::IValue>& objects);

/// What the ways would make of what a plan may save. Tensors that the filter leaves as they are, or
/// that a way cannot be captured for, are left out. `always`: Packings::always.
Packings weigh(std::span<HookCaptures> ways, bool always, const Graph& joint, HookFilter filter,
               const ByteRules& rules);

}  // namespace antegrad::hooks
