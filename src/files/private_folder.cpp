#include "files/private_folder.h"

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

#include "files/ownership.h"
#include "graph/hash.h"

namespace antegrad {
namespace {

constexpr off_t kLargestEntry = off_t{1} << 30;
constexpr time_t kHour = 3600;
constexpr std::string_view kWorkPrefix = "work.";

bool is_private(const struct stat& status) {
  return status.st_uid == ::geteuid() && only_owner_writes(status);
}

bool is_own_file(const File& file, size_t bytes) {
  struct stat status {};
  return ::fstat(file.number(), &status) == 0 && S_ISREG(status.st_mode) && is_private(status) &&
         std::cmp_less_equal(status.st_size, bytes);
}

using Kind = FolderFailure::Kind;

FolderFailure no_writing(int error, const std::string& what) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {full ? Kind::full : Kind::not_writable, what + ": " + error_text(error)};
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
void mark_used(const File& file) {
  struct stat status {};
  if (::fstat(file.number(), &status) == 0 && ::time(nullptr) - status.st_mtime > kHour) {
    ::futimens(file.number(), nullptr);
  }
}

}  // namespace

std::string full_record(std::string_view record, std::string_view contents) {
  return fmt::format("\n{}contents {}\n", record, to_string(hash_of_bytes(contents)));
}

std::optional<EntryParts> parts_of_entry(std::string_view bytes, std::string_view first_words) {
  const size_t start = bytes.rfind(fmt::format("\n{}", first_words));
  const size_t last_line = full_record("", "").size() - 1;  // it begins in a line of its own
  if (start == std::string_view::npos || bytes.size() < start + 1 + last_line) return {};
  const EntryParts parts{.contents = bytes.substr(0, start),
                         .record = bytes.substr(start + 1, bytes.size() - start - 1 - last_line)};
  if (full_record(parts.record, parts.contents) != bytes.substr(start)) return {};
  return parts;
}

Outcome<PrivateFolder, FolderFailure> PrivateFolder::open(const std::string& path,
                                                          std::string suffix) {
  if (path.empty()) {
    return FolderFailure{Kind::not_writable,
                         "no folder is named, and neither XDG_CACHE_HOME nor HOME is set"};
  }
  if (const int error = make(path)) return no_writing(error, path);
  File directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!directory || ::fstat(directory.number(), &status) != 0) {
    return FolderFailure{Kind::refused, path + ": " + error_text(errno)};
  }
  if (!is_private(status)) {
    return FolderFailure{
        Kind::refused, fmt::format("{} is {}; expected user {} and nobody else who can write", path,
                                   owner_and_mode(status), ::geteuid())};
  }
  return PrivateFolder(std::move(directory), std::move(suffix));
}

PrivateFolder::Entry PrivateFolder::read_unchecked(const std::string& name) const {
  Entry entry;
  const auto refused = [&](const std::string& why) {
    entry.damage = name + ": " + why;
    return std::move(entry);
  };
  // Without O_NONBLOCK, opening a named pipe would wait.
  File file(::openat(directory_.number(), (name + suffix_).c_str(),
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return errno == ENOENT ? std::move(entry) : refused(error_text(errno));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return refused(error_text(errno));
  if (!S_ISREG(status.st_mode)) return refused("not a file");
  if (!is_private(status)) return refused(owner_and_mode(status));
  if (status.st_size > kLargestEntry) return refused("too large");
  if (const int error = read_up_to(file, static_cast<size_t>(status.st_size), entry.bytes)) {
    return refused(error_text(error));
  }
  entry.file = std::move(file);
  return entry;
}

PrivateFolder::Entry PrivateFolder::read(const std::string& name, std::string_view record) const {
  auto entry = read_unchecked(name);
  if (!entry.file) return entry;
  const auto refused = [&](const std::string& why) {
    return Entry{.bytes = {}, .damage = name + ": " + why, .file = File()};
  };
  const size_t length = full_record(record, "").size();
  if (entry.bytes.size() <= length) return refused("cut off");
  const std::string_view contents =
      std::string_view(entry.bytes).substr(0, entry.bytes.size() - length);
  if (full_record(record, contents) != std::string_view(entry.bytes).substr(contents.size())) {
    return refused("its contents are not what its record says");
  }
  mark_used(entry.file);
  entry.bytes.resize(contents.size());
  return entry;
}

std::string PrivateFolder::read_list(const std::string& name, size_t bytes) const {
  const File file(
      ::openat(directory_.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  if (!file || !is_own_file(file, bytes) || read_up_to(file, bytes, text) != 0) return {};
  return text;
}

bool PrivateFolder::add_to_list(const std::string& name, std::string_view line,
                                size_t bytes) const {
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

PrivateFolder::Work::Work(int folder, std::string name, File directory)
    : folder_(folder), name_(std::move(name)), directory_(std::move(directory)) {}

PrivateFolder::Work::~Work() {
  if (directory_) remove_work(folder_, name_);
}

std::optional<FolderFailure> PrivateFolder::Work::write(const std::string& name,
                                                        std::string_view bytes) const {
  const File file(::openat(directory(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                           S_IRUSR | S_IWUSR));
  if (!file) return no_writing(errno, name);
  if (const int error = write_all(file, bytes)) return no_writing(error, name);
  return {};
}

Outcome<PrivateFolder::Work, FolderFailure> PrivateFolder::work() const {
  static std::atomic<uint64_t> counter = 0;
  while (true) {
    // The time tells processes of one number on two machines apart.
    const auto time = std::chrono::steady_clock::now().time_since_epoch().count();
    std::string name = fmt::format("{}{}.{}.{:x}", kWorkPrefix, ::getpid(), counter++, time);
    if (::mkdirat(directory_.number(), name.c_str(), S_IRWXU) != 0) {
      if (errno == EEXIST) continue;
      return no_writing(errno, "the folder of what is kept");
    }
    File made(::openat(directory_.number(), name.c_str(),
                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made) return no_writing(errno, name);
    return Work(directory_.number(), std::move(name), std::move(made));
  }
}

PrivateFolder::Entry PrivateFolder::keep(const Work& work, const std::string& made,
                                         const std::string& name, std::string_view record) const {
  Entry entry;
  const auto failed = [&](int error) {
    entry.damage = fmt::format("{} cannot be kept: {}", name, error_text(error));
    return std::move(entry);
  };
  File file(::openat(work.directory(), made.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0) return failed(errno);
  if (!S_ISREG(status.st_mode) || status.st_size > kLargestEntry) return failed(EFBIG);
  if (const int error = read_up_to(file, static_cast<size_t>(status.st_size), entry.bytes)) {
    entry.bytes.clear();
    return failed(error);
  }
  if (const int error = write_all(file, full_record(record, entry.bytes))) return failed(error);
  // A compiler's file has the mode that the process's mask leaves.
  if (::fchmod(file.number(), S_IRUSR | S_IWUSR) != 0) return failed(errno);
  if (::renameat(work.directory(), made.c_str(), directory_.number(), (name + suffix_).c_str()) !=
      0) {
    return failed(errno);
  }
  entry.file = std::move(file);
  return entry;
}

std::string PrivateFolder::keep_bytes(std::string_view bytes, const std::string& name,
                                      std::string_view record) const {
  constexpr const char* kMade = "made";
  const auto work = this->work();
  if (!work) return work.failure().text;
  if (const auto failure = work->write(kMade, bytes)) return failure->text;
  return keep(*work, kMade, name, record).damage;
}

std::vector<PrivateFolder::Listed> PrivateFolder::list() const {
  std::vector<Listed> entries;
  for (const std::string& name : names_in(directory_.number())) {
    struct stat status {};
    if (!name.ends_with(suffix_) ||
        ::fstatat(directory_.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        S_ISDIR(status.st_mode)) {
      continue;
    }
    entries.push_back(
        {name.substr(0, name.size() - suffix_.size()), status.st_size, status.st_mtim});
  }
  std::sort(entries.begin(), entries.end(), [](const Listed& a, const Listed& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) <
           std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  return entries;
}

bool PrivateFolder::remove(const std::string& name) const {
  return ::unlinkat(directory_.number(), (name + suffix_).c_str(), 0) == 0;
}

void PrivateFolder::trim(int64_t bytes) const {
  for (const std::string& name : names_in(directory_.number())) {
    struct stat status {};
    if (name.starts_with(kWorkPrefix) &&
        ::fstatat(directory_.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(status.st_mode) && ::time(nullptr) - status.st_mtime > kHour) {
      remove_work(directory_.number(), name);
    }
  }
  const auto entries = list();
  int64_t total = 0;
  for (const Listed& entry : entries) total += entry.bytes;
  for (const Listed& entry : entries) {
    if (total <= bytes) break;
    remove(entry.name);  // one that another process removed at the same time is gone as well
    total -= entry.bytes;
  }
}

}  // namespace antegrad
