#include "torch_compat/libtorch_symbol.h"

#include <dlfcn.h>

namespace antegrad::torch_compat {

void* libtorch_symbol(const char* name) {
  void* const libtorch = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (libtorch == nullptr) return nullptr;
  void* const symbol = ::dlsym(libtorch, name);
  ::dlclose(libtorch);  // it stays loaded
  return symbol;
}

}  // namespace antegrad::torch_compat
