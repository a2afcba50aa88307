#include "common/empty_cache.h"

#include <antegrad/error.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>

namespace antegrad::bench {

namespace fs = std::filesystem;

EmptyCache::EmptyCache() {
  std::string name = fs::temp_directory_path() / "antegrad-bench-XXXXXX";
  AG_CHECK(mkdtemp(name.data()) != nullptr, "a folder for kernels");
  folder_ = name;
  setenv("XDG_CACHE_HOME", name.c_str(), 1);
}

EmptyCache::~EmptyCache() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

int64_t compiled_files() {
  const char* folder = std::getenv("XDG_CACHE_HOME");
  if (folder == nullptr || !fs::exists(folder)) return 0;
  return std::ranges::count_if(fs::recursive_directory_iterator(folder),
                               [](const auto& entry) { return entry.path().extension() == ".so"; });
}

}  // namespace antegrad::bench
