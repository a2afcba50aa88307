#pragma once

/// \file
/// Containers in the arguments that a captured function changes.
///
/// The function is captured on containers that are rebuilt from leaves. Changes to them are
/// detected after the call, and follow the function's result in the leaves. Each call applies them
/// to the caller's own containers.

#include <vector>

#include "structure.h"

namespace antegrad::python {

/// The contents of the containers in the arguments. Needs the GIL.
class Contents {
 public:
  /// Records the current contents of `arguments`, and keeps a reference to it.
  explicit Contents(Containers& arguments);

  /// The numbers of the containers that changed since. No other containers may have been added
  /// meanwhile. Throws MutationError for a container that cannot be changed from outside; `args`
  /// and `kwargs` serve to name its place.
  std::vector<size_t> changed(const py::tuple& args, const py::dict& kwargs) const;

 private:
  Leaves contents_of(size_t number) const;

  Containers& seen_;
  std::vector<Leaves> before_;
};

/// Appends the contents of the changed containers.
void flatten_changes(const std::vector<size_t>& changed, Containers& seen, Leaves& leaves);
/// Reads changes and applies them. On an error, nothing is changed.
void make_changes(LeafReader& reader, Containers& seen);

}  // namespace antegrad::python
