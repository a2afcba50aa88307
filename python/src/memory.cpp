#include "memory.h"

#include <antegrad/memory.h>
#include <antegrad/resize_storage.h>

namespace antegrad::python {

void add_memory(py::module_& module) {
  py::class_<MemoryKept>(module, "MemoryKept",
                         "Memory of the CPU that programs keep between calls.")
      .def_readonly("used_bytes", &MemoryKept::used_bytes,
                    "Bytes of tensors that live in it: results, gradients, saved values.")
      .def_readonly("kept_bytes", &MemoryKept::kept_bytes,
                    "In pages of the system, with those that are free for later calls.");
  module.def("kept_memory", &kept_memory, "What this process keeps.");
  module.def("release_kept_memory", &release_kept_memory,
             "Gives back to the system what is free of the memory that programs keep, as "
             "torch.cuda.empty_cache() does of a GPU's.");
  module.def("resize_storage_", &resize_storage_, py::arg("tensor"), py::arg("nbytes"),
             "Frees the memory of the tensor's storage (0), or allocates it from 0 bytes, as "
             "untyped_storage().resize_() does. Inside a function given to antegrad.compile only "
             "this one is seen. Fill all of new memory before it is read. Raises InputError for "
             "another size; in a capture MutationError.");
}

}  // namespace antegrad::python
