#pragma once

/// \file
/// The hooks on saved tensors of one program: which tensors they replace, and what they compute.

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
  // For the report: the names of the hooks, the tensors that they replace, and those that they do
  // not, with the reason.
  std::string names;
  std::vector<std::string> hooked_texts;
  std::vector<std::string> not_hooked_texts;
};

/// Captures the hooks for the saved tensors that the filter selects in a partition, on the metadata
/// of each. Node ids from `first_node` on are free. Throws the errors of HookCaptures::on().
CapturedHooks capture_hooks(HookCaptures& hooks, const Partition& partition, HookFilter filter,
                            int32_t first_node);

/// The same for the tensors that a plan packs, each with its packing: an index into `ways`.
CapturedHooks capture_packed(std::span<HookCaptures> ways, const Partition& partition,
                             int32_t first_node);

/// The tables of a graph after hooks with these objects were inlined.
ops::AttrTables with_objects(ops::AttrTables tables, const std::vector<c10::IValue>& objects);

/// The effect of each packing on the values that a plan may save. Tensors that the filter excludes,
/// or for which a packing cannot be captured, are left out. `always`: Packings::always. Times are
/// those on the machine.
Packings weigh(std::span<HookCaptures> ways, bool always, const Graph& joint, HookFilter filter,
               const Machine& machine, const ByteRules& rules);

}  // namespace antegrad::hooks
