#include "cache/build_id.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace antegrad {
namespace {

constexpr std::string_view kGnu{"GNU\0", 4};

size_t padded(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

/// The build id among the notes of a segment; empty if there is none.
std::string build_id_in(std::string_view notes) {
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof(header)) {
    std::memcpy(&header, notes.data(), sizeof(header));
    notes.remove_prefix(sizeof(header));
    const size_t name = padded(header.n_namesz), bytes = padded(header.n_descsz);
    if (notes.size() < name + bytes) return "";
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(0, header.n_namesz) == kGnu) {
      std::string id;
      for (const char byte : notes.substr(name, header.n_descsz)) {
        id += fmt::format("{:02x}", static_cast<uint8_t>(byte));
      }
      return id;
    }
    notes.remove_prefix(name + bytes);
  }
  return "";
}

struct Search {
  uintptr_t address;
  std::string id = {};
  std::optional<std::string> path = {};  ///< of the file that holds the address; "": the program
};

const char* start_of(const dl_phdr_info& object, const ElfW(Phdr) & segment) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): where the loader says it is
  return reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
}

int look_at(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool holds = false;
  std::string id;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    const auto start = reinterpret_cast<uintptr_t>(start_of(*object, segment));
    if (segment.p_type == PT_LOAD) {
      holds = holds || (search.address >= start && search.address < start + segment.p_memsz);
    } else if (segment.p_type == PT_NOTE && id.empty()) {
      id = build_id_in({start_of(*object, segment), segment.p_memsz});
    }
  }
  if (!holds) return 0;
  search.id = std::move(id);
  search.path = object->dlpi_name;
  return 1;
}

}  // namespace

std::string build_id_of(const void* address) {
  Search search{.address = reinterpret_cast<uintptr_t>(address)};
  ::dl_iterate_phdr(look_at, &search);
  if (!search.id.empty() || !search.path) return search.id;
  const std::string path = search.path->empty() ? "/proc/self/exe" : *search.path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{}, {} bytes, written {}", path, status.st_size, status.st_mtim.tv_sec);
}

const std::string& own_build_id() {
  static const std::string id = build_id_of(reinterpret_cast<const void*>(&own_build_id));
  return id;
}

}  // namespace antegrad
