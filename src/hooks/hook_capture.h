#pragma once

/// \file
/// Hooks on saved tensors as graphs: captured on the metadata of the tensors that they are for.

#include <ATen/core/ivalue.h>
#include <antegrad/saved_tensors.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partition/hooks/hooks.h"

namespace antegrad::hooks {

/// What only the runtime can hold, of all hooks of a program: Hooked::object_names, and what has
/// that name.
struct HookObjects {
  std::vector<std::string> names;
  std::vector<c10::IValue> values;
};

/// A pair of hooks as captured for tensors: hooks see metadata alone, so once for all of the same.
class HookCaptures {
 public:
  /// `objects`: one for all hooks of a program.
  HookCaptures(std::shared_ptr<const detail::HookPair> hooks, std::shared_ptr<HookObjects> objects)
      : hooks_(std::move(hooks)), objects_(std::move(objects)) {}

  const detail::HookPair& pair() const { return *hooks_; }
  const HookObjects& objects() const { return *objects_; }
  /// Throws CaptureError and its kinds for hooks that cannot be captured, HookError for hooks that
  /// return what cannot be saved or do not give back what was saved, and what hooks throw.
  const HookedTensor& on(const TensorMeta& meta);

 private:
  std::shared_ptr<const detail::HookPair> hooks_;
  std::shared_ptr<HookObjects> objects_;
  std::vector<std::pair<TensorMeta, HookedTensor>> known_;
};

/// "f32[8, 4]"
std::string meta_text(const TensorMeta& meta);

}  // namespace antegrad::hooks
