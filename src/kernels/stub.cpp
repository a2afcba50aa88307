#include "kernels/stub.h"

#include <elf.h>

#include <array>
#include <cstring>

namespace antegrad::kernels {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "name the machine of ELF files"
#endif

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

std::string stub_library(std::string_view soname) {
  // Names of sections, and the soname: one table serves both.
  const std::string strings = std::string(1, '\0') + ".dynamic" + '\0' + ".dynstr" + '\0' +
                              ".dynsym" + '\0' + std::string(soname) + '\0';
  const auto place_of = [&](std::string_view name) {
    return static_cast<Elf64_Word>(strings.find(std::string(name) + '\0'));
  };
  const Elf64_Sym no_symbol{};
  const std::array<Elf64_Dyn, 2> dynamic = {
      Elf64_Dyn{DT_SONAME, {strings.size() - 1 - soname.size()}}, Elf64_Dyn{DT_NULL, {0}}};

  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = kMachine;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 1;
  header.e_shoff = sizeof header;

  std::array<Elf64_Shdr, 4> sections{};
  Elf64_Off at = header.e_shoff + sizeof sections;
  const auto section = [&](int index, const char* name, Elf64_Word type, uint64_t size,
                           uint64_t entry) {
    auto& shown = sections[static_cast<size_t>(index)];
    shown.sh_name = place_of(name);
    shown.sh_type = type;
    shown.sh_flags = SHF_ALLOC;
    shown.sh_addr = shown.sh_offset = at;
    shown.sh_size = size;
    shown.sh_entsize = entry;
    shown.sh_addralign = entry == 0 ? 1 : 8;
    shown.sh_link = entry == 0 ? 0 : 1;
    at += size;
  };
  section(2, ".dynamic", SHT_DYNAMIC, sizeof dynamic, sizeof(Elf64_Dyn));
  section(3, ".dynsym", SHT_DYNSYM, sizeof no_symbol, sizeof no_symbol);
  sections[3].sh_info = 1;
  section(1, ".dynstr", SHT_STRTAB, strings.size(), 0);

  std::string file(bytes_of(header));
  file += bytes_of(sections);
  file += bytes_of(dynamic);
  file += bytes_of(no_symbol);
  file += strings;
  return file;
}

}  // namespace antegrad::kernels
