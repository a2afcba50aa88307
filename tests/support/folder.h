#pragma once

/// \file
/// Temporary folders of tests.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace antegrad::testing {

/// A temporary folder of a test, removed with all of its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "antegrad.XXXXXX").string()) {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~TemporaryFolder() { remove(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  bool is_empty() const { return std::filesystem::is_empty(path_); }
  /// The path of an entry, which need not exist.
  std::string operator/(std::string_view entry) const {
    return (std::filesystem::path(path_) / entry).string();
  }

 private:
  // One by one: libtorch 2.11 exports a remove_all() that replaces the standard library's and
  // crashes.
  static void remove(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(std::filesystem::symlink_status(path))) {
      for (const auto& entry : std::filesystem::directory_iterator(path)) remove(entry.path());
    }
    std::filesystem::remove(path);
  }

  std::string path_;
};

}  // namespace antegrad::testing
