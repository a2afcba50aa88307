#include "kernels/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "kernels/profiled_names.h"

namespace antegrad::kernels {
namespace {

Failure not_loadable(std::string text) { return {Reason::not_loadable, std::move(text)}; }

using Handle = std::unique_ptr<void, int (*)(void*)>;

/// Without the path in front, which names no file that anybody can see.
std::string loader_error(const std::string& path) {
  const char* error = ::dlerror();
  std::string text = error == nullptr ? "no reason given" : error;
  if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
  return text;
}

}  // namespace

Outcome<std::shared_ptr<const Library>> Library::load(std::string_view bytes,
                                                      const std::vector<std::string>& needed,
                                                      const File& file) {
  std::vector<Handle> held;  // until the library holds them
  for (const std::string& soname : needed) {
    held.emplace_back(::dlopen(soname.c_str(), RTLD_LAZY | RTLD_NOLOAD), ::dlclose);
    if (!held.back()) return not_loadable(soname + " is not loaded in this process");
  }
  File image(::memfd_create("antegrad_kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!image) return not_loadable("no file in memory: " + error_text(errno));
  if (const int error = write_all(image, bytes)) return not_loadable(error_text(error));
  ::fcntl(image.number(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
  // The number of the process makes the name mean the same to a debugger. The descriptor stays
  // open, so that no other library can have this name: dlopen() would take it for this one.
  const std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), image.number());
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return not_loadable(loader_error(path));
  name_for_profilers(handle, bytes, file);
  return std::shared_ptr<const Library>(new Library(handle, std::move(image)));
}

Library::~Library() { ::dlclose(handle_); }

std::string Library::bytes() const {
  struct stat status {};
  if (::fstat(image_.number(), &status) != 0) return "";
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  for (size_t done = 0; done < bytes.size();) {  // whatever place its descriptor is at
    const auto count = ::pread(image_.number(), bytes.data() + done, bytes.size() - done,
                               static_cast<off_t>(done));
    if (count <= 0) return "";
    done += static_cast<size_t>(count);
  }
  return bytes;
}

Function Library::function(const std::string& name) const {
  return reinterpret_cast<Function>(::dlsym(handle_, name.c_str()));
}

}  // namespace antegrad::kernels
