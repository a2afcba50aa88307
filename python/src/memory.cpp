#include "memory.h"

#include <antegrad/memory.h>

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
}

}  // namespace antegrad::python
