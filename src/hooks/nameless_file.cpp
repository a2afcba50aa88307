#include "hooks/nameless_file.h"

#include <antegrad/error.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "files/file.h"

namespace antegrad::hooks {
namespace {

[[noreturn]] void fail(const std::string& directory, size_t bytes, const char* what, int error) {
  throw HookError(ErrorText{
      "a file of " + std::to_string(bytes) + " bytes in '" + directory + "' for a saved tensor",
      std::string(what) + ": " + error_text(error),
      "give offload_to_host a directory that exists, can be written to and has room, or "
      "raise min_bytes so that fewer tensors leave"});
}

// A descriptor, or a negated error number. Some file systems cannot create unnamed files; there the
// file has a name for a moment.
int open_nameless(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file >= 0) return file;
  auto path = directory + "/antegrad.XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return -errno;
  if (unlink(path.c_str()) == 0) return named;
  const int error = errno;
  close(named);
  return -error;
}

// 0, or an error number.
int reserve(int file, size_t bytes) {
  while (fallocate(file, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS) return 0;  // the write reports it
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

NamelessFile::NamelessFile(const std::string& directory, const void* data, size_t bytes)
    : bytes_(bytes) {
  const File file(open_nameless(directory));
  if (!file) fail(directory, bytes, "it cannot be made", -file.number());
  if (const int error = reserve(file.number(), bytes)) {
    fail(directory, bytes, "there is no room", error);
  }
  if (const int error = write_all(file, {static_cast<const char*>(data), bytes})) {
    fail(directory, bytes, "it cannot be written", error);
  }
  auto* const mapping = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.number(), 0);
  if (mapping == MAP_FAILED) fail(directory, bytes, "it cannot be mapped", errno);
  mapping_ = mapping;
}

NamelessFile::~NamelessFile() { munmap(mapping_, bytes_); }

void NamelessFile::read(void* to) const {
  madvise(mapping_, bytes_, MADV_SEQUENTIAL);
  std::memcpy(to, mapping_, bytes_);
  madvise(mapping_, bytes_, MADV_DONTNEED);  // returns the pages to the page cache
}

}  // namespace antegrad::hooks
