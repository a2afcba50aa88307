#include "files/file.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace antegrad {

File::File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

void File::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

int write_all(const File& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int read_up_to(const File& file, size_t bytes, std::string& to) {
  to.resize(bytes);
  size_t done = 0;
  int error = 0;
  while (done < bytes) {
    const auto count = ::read(file.number(), to.data() + done, bytes - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error = errno;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  to.resize(done);
  return error;
}

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace antegrad
