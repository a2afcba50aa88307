#include "common/empty_cache.h"

#include <antegrad/error.h>
#include <ftw.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace antegrad::bench {

namespace fs = std::filesystem;

EmptyCache::EmptyCache() {
  std::string name = fs::temp_directory_path() / "antegrad-bench-XXXXXX";
  AG_CHECK(mkdtemp(name.data()) != nullptr, "a folder for kernels");
  folder_ = name;
  setenv("XDG_CACHE_HOME", name.c_str(), 1);
}

// Not by fs::remove_all(): libtorch 2.11 for CUDA exports one of another libstdc++, which crashes.
EmptyCache::~EmptyCache() {
  const auto remove_entry = [](const char* path, const struct stat*, int, FTW*) {
    return std::remove(path);
  };
  constexpr int kOpenFolders = 16;
  nftw(folder_.c_str(), remove_entry, kOpenFolders, FTW_DEPTH | FTW_PHYS);
}

int64_t compiled_files() {
  const char* folder = std::getenv("XDG_CACHE_HOME");
  if (folder == nullptr || !fs::exists(folder)) return 0;
  return std::ranges::count_if(fs::recursive_directory_iterator(folder),
                               [](const auto& entry) { return entry.path().extension() == ".so"; });
}

}  // namespace antegrad::bench
