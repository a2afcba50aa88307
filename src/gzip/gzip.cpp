#include "gzip/gzip.h"

#include <memory>

#include <zlib.h>

#include <fmt/format.h>

#include <antegrad/error.h>

namespace antegrad {

std::string read_maybe_gzipped(const std::string& file) {
  const auto error = [&](const std::string& found) {
    return InputError(ErrorText{fmt::format("a file that can be read, {}", file), found, ""});
  };
  // Reads files that are not compressed unchanged.
  std::unique_ptr<gzFile_s, int (*)(gzFile)> stream(gzopen(file.c_str(), "rb"), gzclose);
  if (!stream) throw error("none");
  std::string text;
  std::string buffer(1 << 16, '\0');
  int count = 0;
  while ((count = gzread(stream.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer, 0, static_cast<size_t>(count));
  }
  int code = Z_OK;
  const std::string why = gzerror(stream.get(), &code);
  if (count < 0) throw error(why);
  // A truncated file is only detected at closing.
  if (gzclose(stream.release()) != Z_OK) throw error("one that was cut off");
  return text;
}

}  // namespace antegrad
