#pragma once

/// \file
/// Containers among the arguments that a captured function changes.
///
/// The function is captured on containers made anew from leaves. What it changed in them is found
/// after the call, follows its result in the leaves, and goes into the caller's own containers with
/// each call.

#include <vector>

#include "structure.h"

namespace antegrad::python {

/// What is in the containers of arguments. With the GIL.
class Contents {
 public:
  /// Remembers what is in `arguments` now; refers to them.
  explicit Contents(Containers& arguments);

  /// The numbers of those that changed since; no others may have been met meanwhile. Throws
  /// MutationError for one that cannot be changed from outside; `args` and `kwargs` tell where it
  /// is.
  std::vector<size_t> changed(const py::tuple& args, const py::dict& kwargs) const;

 private:
  Leaves contents_of(size_t number) const;

  Containers& seen_;
  std::vector<Leaves> before_;
};

/// Appends what is in the containers that changed.
void flatten_changes(const std::vector<size_t>& changed, Containers& seen, Leaves& leaves);
/// Reads changes and makes them. An error leaves all as it was.
void make_changes(LeafReader& reader, Containers& seen);

}  // namespace antegrad::python
