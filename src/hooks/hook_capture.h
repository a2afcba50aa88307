#pragma once

/// \file
/// Hooks on saved tensors as graphs, captured on the metadata of the tensors that they pack.

#include <ATen/core/ivalue.h>
#include <antegrad/saved_tensors.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partition/hooks/hooks.h"

namespace antegrad::hooks {

/// The objects of all hooks of a program that only the runtime can hold: Hooked::object_names, and
/// the object of each name.
struct HookObjects {
  std::vector<std::string> names;
  std::vector<c10::IValue> values;
};

/// The captures of a pair of hooks. Hooks only see metadata, so there is one capture per distinct
/// metadata.
class HookCaptures {
 public:
  /// `objects` is shared by all hooks of a program.
  HookCaptures(std::shared_ptr<const detail::HookPair> hooks, std::shared_ptr<HookObjects> objects)
      : hooks_(std::move(hooks)), objects_(std::move(objects)) {}

  const detail::HookPair& pair() const { return *hooks_; }
  const HookObjects& objects() const { return *objects_; }
  /// Throws CaptureError or a subclass if the hooks cannot be captured, and HookError if they
  /// return something that cannot be saved or do not restore the saved tensor. Exceptions of hooks
  /// propagate.
  const HookedTensor& on(const TensorMeta& meta);

 private:
  std::shared_ptr<const detail::HookPair> hooks_;
  std::shared_ptr<HookObjects> objects_;
  std::vector<std::pair<TensorMeta, HookedTensor>> known_;
};

/// "f32[8, 4]"
std::string meta_text(const TensorMeta& meta);

}  // namespace antegrad::hooks
