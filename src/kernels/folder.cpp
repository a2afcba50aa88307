#include "kernels/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/hash.h"
#include "kernels/compiler.h"
#include "kernels/ownership.h"

namespace antegrad::kernels {
namespace {

constexpr off_t kLargestEntry = off_t{1} << 30;
constexpr time_t kHour = 3600;
constexpr std::string_view kWorkPrefix = "work.", kEntrySuffix = ".so";

bool is_private(const struct stat& status) {
  return status.st_uid == ::geteuid() && only_owner_writes(status);
}

bool is_own_file(const File& file, size_t bytes) {
  struct stat status {};
  return ::fstat(file.number(), &status) == 0 && S_ISREG(status.st_mode) && is_private(status) &&
         std::cmp_less_equal(status.st_size, bytes);
}

Failure no_writing(int error, const std::string& what) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {full ? Reason::disk_full : Reason::folder_not_writable, what + ": " + error_text(error)};
}

std::string full_record(std::string_view record, std::string_view library) {
  return fmt::format("\n{}library {}\n", record, to_string(hash_of_bytes(library)));
}

/// Makes the folder and those above it, as far as they are missing. 0, or an error number.
int make(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return 0;
  if (errno != ENOENT) return errno;
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) return failed.value();
  return ::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST ? 0 : errno;
}

using Names = std::vector<std::string>;

Names names_in(int directory) {
  // A description of its own, since reading moves it.
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return {};
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy), ::closedir);
  if (!stream) {
    ::close(copy);
    return {};
  }
  Names names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

/// With the files in it; compilers make no folders.
void remove_work(int folder, const std::string& name) {
  const File directory(
      ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return;
  for (const std::string& file : names_in(directory.number())) {
    ::unlinkat(directory.number(), file.c_str(), 0);
  }
  ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
}

/// Its time of modification is that of its last use, since many systems do not note reading.
void mark_used(const File& file, const struct stat& status) {
  if (::time(nullptr) - status.st_mtime > kHour) ::futimens(file.number(), nullptr);
}

}  // namespace

Outcome<Folder> Folder::open(const std::string& path) {
  if (path.empty()) {
    return Failure{Reason::folder_not_writable,
                   "no folder is named, and neither XDG_CACHE_HOME nor HOME is set"};
  }
  if (const int error = make(path)) return no_writing(error, path);
  File directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!directory || ::fstat(directory.number(), &status) != 0) {
    return Failure{Reason::folder_refused, path + ": " + error_text(errno)};
  }
  if (!is_private(status)) {
    return Failure{Reason::folder_refused,
                   fmt::format("{} is {}; expected user {} and nobody else who can write", path,
                               owner_and_mode(status), ::geteuid())};
  }
  return Folder(std::move(directory));
}

Folder::Entry Folder::read(const std::string& name, std::string_view record) const {
  Entry entry;
  const auto refused = [&](const std::string& why) {
    entry.damage = name + ": " + why;
    return std::move(entry);
  };
  // Without O_NONBLOCK, opening a named pipe would wait.
  File file(::openat(directory_.number(), (name + ".so").c_str(),
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return errno == ENOENT ? std::move(entry) : refused(error_text(errno));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return refused(error_text(errno));
  if (!S_ISREG(status.st_mode)) return refused("not a file");
  if (!is_private(status)) return refused(owner_and_mode(status));
  if (status.st_size > kLargestEntry) return refused("too large");
  std::string bytes;
  if (const int error = read_up_to(file, static_cast<size_t>(status.st_size), bytes)) {
    return refused(error_text(error));
  }
  const size_t length = full_record(record, "").size();
  if (bytes.size() <= length) return refused("cut off");
  const std::string_view library = std::string_view(bytes).substr(0, bytes.size() - length);
  if (full_record(record, library) != std::string_view(bytes).substr(library.size())) {
    return refused("its contents are not what its record says");
  }
  mark_used(file, status);
  bytes.resize(library.size());
  entry.library = std::move(bytes);
  entry.file = std::move(file);
  return entry;
}

std::string Folder::read_list(const std::string& name, size_t bytes) const {
  const File file(
      ::openat(directory_.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  if (!file || !is_own_file(file, bytes) || read_up_to(file, bytes, text) != 0) return {};
  return text;
}

bool Folder::add_to_list(const std::string& name, std::string_view line, size_t bytes) const {
  const auto open = [&](int flags) {
    return File(
        ::openat(directory_.number(), name.c_str(),
                 O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags,
                 S_IRUSR | S_IWUSR));
  };
  File file = open(0);
  if (!file || !is_own_file(file, bytes - line.size())) {
    ::unlinkat(directory_.number(), name.c_str(), 0);
    file = open(O_EXCL);
  }
  return file && write_all(file, line) == 0;
}

Folder::Work::Work(int folder, std::string name, File directory)
    : folder_(folder), name_(std::move(name)), directory_(std::move(directory)) {}

Folder::Work::~Work() {
  if (directory_) remove_work(folder_, name_);
}

std::optional<Failure> Folder::Work::write(const std::string& name, std::string_view bytes) const {
  const File file(::openat(directory(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                           S_IRUSR | S_IWUSR));
  if (!file) return no_writing(errno, name);
  if (const int error = write_all(file, bytes)) return no_writing(error, name);
  return {};
}

Outcome<Folder::Work> Folder::work() const {
  static std::atomic<uint64_t> counter = 0;
  while (true) {
    // The time tells processes of one number on two machines apart.
    const auto time = std::chrono::steady_clock::now().time_since_epoch().count();
    std::string name = fmt::format("{}{}.{}.{:x}", kWorkPrefix, ::getpid(), counter++, time);
    if (::mkdirat(directory_.number(), name.c_str(), S_IRWXU) != 0) {
      if (errno == EEXIST) continue;
      return no_writing(errno, "the folder of compiled files");
    }
    File made(::openat(directory_.number(), name.c_str(),
                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made) return no_writing(errno, name);
    return Work(directory_.number(), std::move(name), std::move(made));
  }
}

Folder::Entry Folder::keep(const Work& work, const std::string& name,
                           std::string_view record) const {
  Entry entry;
  const auto failed = [&](int error) {
    entry.damage = fmt::format("{} cannot be kept: {}", name, error_text(error));
    return std::move(entry);
  };
  File file(::openat(work.directory(), kLibraryFile, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0) return failed(errno);
  if (!S_ISREG(status.st_mode) || status.st_size > kLargestEntry) return failed(EFBIG);
  if (const int error = read_up_to(file, static_cast<size_t>(status.st_size), entry.library)) {
    entry.library.clear();
    return failed(error);
  }
  if (const int error = write_all(file, full_record(record, entry.library))) return failed(error);
  // The compiler's file has the mode that the process's mask leaves.
  if (::fchmod(file.number(), S_IRUSR | S_IWUSR) != 0) return failed(errno);
  if (::renameat(work.directory(), kLibraryFile, directory_.number(), (name + ".so").c_str()) !=
      0) {
    return failed(errno);
  }
  entry.file = std::move(file);
  return entry;
}

void Folder::trim(int64_t bytes) const {
  struct Kept {
    timespec used;
    int64_t bytes;
    std::string name;
  };
  std::vector<Kept> entries;
  int64_t total = 0;
  for (const std::string& name : names_in(directory_.number())) {
    struct stat status {};
    if (::fstatat(directory_.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (name.starts_with(kWorkPrefix) && S_ISDIR(status.st_mode)) {
      if (::time(nullptr) - status.st_mtime > kHour) remove_work(directory_.number(), name);
    } else if (name.ends_with(kEntrySuffix) && !S_ISDIR(status.st_mode)) {
      entries.push_back({status.st_mtim, status.st_size, name});
      total += status.st_size;
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Kept& a, const Kept& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) <
           std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  for (const Kept& entry : entries) {
    if (total <= bytes) break;
    // One that another process removed at the same time is gone as well.
    ::unlinkat(directory_.number(), entry.name.c_str(), 0);
    total -= entry.bytes;
  }
}

}  // namespace antegrad::kernels
