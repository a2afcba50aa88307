#include "common/output.h"

#include <antegrad/error.h>

#include <fstream>

namespace antegrad::examples {
namespace {

[[noreturn]] void fail_to_write(const std::filesystem::path& path) {
  throw InputError(ErrorText{"a folder to write to",
                             "'" + path.string() + "', which cannot be made",
                             "give another folder with --out"});
}

}  // namespace

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_to_write(path);
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) fail_to_write(path);
}

}  // namespace antegrad::examples
