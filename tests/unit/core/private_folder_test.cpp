// The private folder: which folders and entries are refused, what is kept, and what goes.

#include "files/private_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "kernel_files.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace folder_test {

namespace fs = std::filesystem;
using Kind = FolderFailure::Kind;
using ::testing::HasSubstr;

constexpr const char* kRecord = "made by a test\n";
constexpr const char* kMade = "made";
constexpr uid_t kNobody = 65534;

auto opened_at(const std::string& path) { return PrivateFolder::open(path, ".so"); }

/// Runs in a child process, where it may give up rights. Returns whether it succeeded.
bool apart(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class PrivateFolderTest : public ::testing::Test {
 protected:
  PrivateFolder folder() {
    auto opened = opened_at(path_);
    EXPECT_TRUE(opened) << opened.failure().text;
    return std::move(*opened);
  }
  /// Keeps `library` as whoever made it has left it. Returns why not.
  static std::string keep(const PrivateFolder& folder, const std::string& name,
                          const std::string& library) {
    const auto work = folder.work();
    if (!work) return work.failure().text;
    if (const auto failure = work->write(kMade, library)) return failure->text;
    return folder.keep(*work, kMade, name, kRecord).damage;
  }
  std::string entry(const std::string& name = "a") const { return path_ + "/" + name + ".so"; }
  std::string damage() { return folder().read("a", kRecord).damage; }

  TemporaryFolder temporary_;
  std::string path_ = temporary_ / "above/kernels";
};

TEST_F(PrivateFolderTest, IsMadePrivateWhateverTheMask) {
  const mode_t before = umask(0);
  folder();
  umask(before);
  EXPECT_EQ(mode_of(path_), 0700U);
}

TEST_F(PrivateFolderTest, ThatOthersCanWriteIsRefused) {
  folder();
  for (const mode_t mode : {0770U, 0702U, 0777U}) {
    chmod(path_.c_str(), mode);
    const auto refused = opened_at(path_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().kind, Kind::refused);
    EXPECT_THAT(refused.failure().text, HasSubstr("nobody else who can write"));
  }
  chmod(path_.c_str(), 0755);
  EXPECT_TRUE(opened_at(path_));
}

TEST_F(PrivateFolderTest, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  folder();
  ASSERT_EQ(chown(path_.c_str(), kNobody, kNobody), 0);
  const auto refused = opened_at(path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().kind, Kind::refused);
  EXPECT_THAT(refused.failure().text, HasSubstr("owned by user 65534"));
}

TEST_F(PrivateFolderTest, ThatCannotBeMadeSaysWhy) {
  write_text(temporary_ / "file", "");
  const auto below_file = opened_at(temporary_ / "file/kernels");
  ASSERT_FALSE(below_file);
  EXPECT_EQ(below_file.failure().kind, Kind::not_writable);
  EXPECT_THAT(below_file.failure().text, HasSubstr("Not a directory"));
  EXPECT_EQ(opened_at(temporary_ / "file").failure().kind, Kind::refused);
  EXPECT_EQ(opened_at("").failure().kind, Kind::not_writable);
}

TEST_F(PrivateFolderTest, GivesBackWhatWasKept) {
  const auto kept = folder();
  EXPECT_EQ(kept.read("a", kRecord).bytes, "");
  EXPECT_EQ(kept.read("a", kRecord).damage, "");
  EXPECT_EQ(keep(kept, "a", "library of a"), "");
  EXPECT_EQ(kept.read("a", kRecord).bytes, "library of a");
  EXPECT_EQ(mode_of(entry()), 0600U);
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 1) << "the work folder is gone";
  EXPECT_EQ(keep(kept, "a", "another one"), "");
  EXPECT_EQ(kept.read("a", kRecord).bytes, "another one");
}

TEST_F(PrivateFolderTest, RefusesAnEntryThatWasCutOffAtAnyByte) {
  keep(folder(), "a", "library");
  const std::string whole = read_text(entry());
  const auto open = folder();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write_text(entry(), whole.substr(0, bytes));
    const auto read = open.read("a", kRecord);
    EXPECT_EQ(read.bytes, "") << bytes;
    EXPECT_NE(read.damage, "") << bytes;
  }
}

TEST_F(PrivateFolderTest, RefusesAnEntryOfWhichAnyByteChanged) {
  keep(folder(), "a", "library");
  const std::string whole = read_text(entry());
  const auto open = folder();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    write_text(entry(), changed);
    EXPECT_EQ(open.read("a", kRecord).damage, "a: its contents are not what its record says") << at;
  }
  write_text(entry(), whole + "x");
  EXPECT_NE(open.read("a", kRecord).damage, "");
}

TEST_F(PrivateFolderTest, RefusesAnEntryThatWasMadeFromSomethingElse) {
  keep(folder(), "a", "library");
  keep(folder(), "b", "library of b");
  fs::rename(entry("b"), entry("a"));
  EXPECT_EQ(folder().read("a", kRecord).bytes, "library of b") << "the record is the same";
  EXPECT_NE(folder().read("a", "made by a tesT\n").damage, "");
}

TEST_F(PrivateFolderTest, RefusesAnEntryThatOthersCanWriteOrOwn) {
  keep(folder(), "a", "library");
  chmod(entry().c_str(), 0620);
  EXPECT_THAT(damage(), HasSubstr("mode 620"));
  chmod(entry().c_str(), 0600);
  EXPECT_EQ(damage(), "");
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chown(entry().c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(damage(), HasSubstr("owned by user 65534"));
}

TEST_F(PrivateFolderTest, RefusesWhatIsNoFile) {
  keep(folder(), "a", "library");
  fs::rename(entry(), entry("b"));
  fs::create_symlink("b.so", entry());
  EXPECT_THAT(damage(), HasSubstr("symbolic links"));
  fs::remove(entry());
  ASSERT_EQ(mkfifo(entry().c_str(), 0600), 0);
  EXPECT_EQ(damage(), "a: not a file");
  fs::remove(entry());
  fs::create_directory(entry());
  EXPECT_EQ(damage(), "a: not a file");
  EXPECT_THAT(keep(folder(), "a", "library"), HasSubstr("a cannot be kept: "));
}

TEST_F(PrivateFolderTest, RemovesWhatWasUsedLeastRecently) {
  const auto kept = folder();
  const std::string library(1000, 'x');
  const auto age = [&](const std::string& name, int hours) {
    fs::last_write_time(entry(name), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  int hours = 10;
  for (const char* name : {"a", "b", "c", "d"}) {
    keep(kept, name, library);
    age(name, hours--);
  }
  EXPECT_EQ(kept.read("a", kRecord).damage, "");  // now the one used last
  kept.trim(4 * static_cast<int64_t>(fs::file_size(entry())));
  EXPECT_TRUE(fs::exists(entry("b")));
  kept.trim(2 * static_cast<int64_t>(fs::file_size(entry())) + 1);
  EXPECT_TRUE(fs::exists(entry("a")));
  EXPECT_FALSE(fs::exists(entry("b")));
  EXPECT_FALSE(fs::exists(entry("c")));
  EXPECT_TRUE(fs::exists(entry("d")));
  kept.trim(0);
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(PrivateFolderTest, RemovesWorkFoldersOfTheDeadAndNothingElse) {
  const auto kept = folder();
  fs::create_directory(path_ + "/work.1.0.f");
  write_text(path_ + "/work.1.0.f/kernels.c", "");
  fs::create_directory(path_ + "/work.2.0.f");
  write_text(path_ + "/notes.txt", "");
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  fs::last_write_time(path_ + "/work.1.0.f", yesterday);
  fs::last_write_time(path_ + "/notes.txt", yesterday);
  kept.trim(0);
  EXPECT_FALSE(fs::exists(path_ + "/work.1.0.f"));
  EXPECT_TRUE(fs::exists(path_ + "/work.2.0.f"));
  EXPECT_TRUE(fs::exists(path_ + "/notes.txt"));
}

TEST_F(PrivateFolderTest, ThatCannotBeWrittenIsStillRead) {
  keep(folder(), "a", "library");
  const auto read_only = [&] {
    const auto open = opened_at(path_);
    if (!open || open->read("a", kRecord).bytes != "library") return false;
    const auto work = open->work();
    return !work && work.failure().kind == Kind::not_writable;
  };
  chmod(path_.c_str(), 0500);
  if (geteuid() == 0) {
    for (const std::string& path : {temporary_.path(), path_, entry()}) {
      ASSERT_EQ(chown(path.c_str(), kNobody, kNobody), 0);
    }
    chmod((temporary_ / "above").c_str(), 0755);
    EXPECT_TRUE(apart([&] { return setuid(kNobody) == 0 && read_only(); }));
  } else {
    EXPECT_TRUE(read_only());
  }
  chmod(path_.c_str(), 0700);
}

TEST_F(PrivateFolderTest, OnAFullDiskSaysSo) {
  fs::create_directories(path_);
  chmod(path_.c_str(), 0700);
  const auto mounted = [&] {
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("none", path_.c_str(), "tmpfs", 0, "size=64k,mode=0700") == 0;
  };
  if (!apart(mounted)) GTEST_SKIP() << "this user cannot mount a small disk";
  EXPECT_TRUE(apart([&] {
    if (!mounted()) return false;
    const auto kept = opened_at(path_);
    const auto work = kept->work();
    const auto failure = work->write(kMade, std::string(1 << 20, 'x'));
    return failure && failure->kind == Kind::full;
  }));
  EXPECT_TRUE(apart([&] {
    if (!mounted()) return false;
    const auto kept = opened_at(path_);
    const auto work = kept->work();
    // The library itself fits, its record does not.
    const std::string library(65536, 'x');
    if (work->write(kMade, library)) return false;
    const auto entry = kept->keep(*work, kMade, "a", kRecord);
    return entry.bytes == library && entry.damage == "a cannot be kept: No space left on device" &&
           !fs::exists(path_ + "/a.so");
  }));
}

}  // namespace folder_test
}  // namespace antegrad::testing
