#include "kernels/profiled_names.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace antegrad::kernels {

void name_for_profilers(void* handle, std::string_view bytes, const File& file) {
  const link_map* loaded = nullptr;
  if (!file || ::dlinfo(handle, RTLD_DI_LINKMAP, &loaded) != 0) return;
  ElfW(Ehdr) header;
  std::memcpy(&header, bytes.data(), sizeof header);  // dlopen() accepted it
  const auto page = static_cast<ElfW(Addr)>(::sysconf(_SC_PAGESIZE));
  for (size_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const auto before = segment.p_vaddr % page;
    const size_t length = (before + segment.p_memsz + page - 1) / page * page;
    void* const code = reinterpret_cast<void*>(loaded->l_addr + segment.p_vaddr - before);
    // The pages move away and back, with the breakpoints that a debugger may have set in them.
    // The addresses are never free: another thread's mapping could come there.
    void* const aside = ::mremap(code, length, length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
    if (aside == MAP_FAILED) return;
    ::mmap(code, length, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file.number(),
           static_cast<off_t>(segment.p_offset - before));
    ::mremap(aside, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, code);
  }
}

}  // namespace antegrad::kernels
