#pragma once

/// \file
/// What tests of src/kernels share: sources, compilers that are shell scripts, environment
/// variables.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "kernels/build.h"
#include "support/folder.h"

namespace antegrad::testing {

constexpr std::chrono::milliseconds kCompilerLimit{60'000};

/// An environment variable for the duration of a scope; without a value it is unset.
class Variable {
 public:
  Variable(std::string name, std::optional<std::string> value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    if (value) {
      setenv(name_.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  std::string name_;
  std::optional<std::string> before_;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A program that is this shell script. One that serves as a compiler answers `--version`.
inline std::string script(const TemporaryFolder& folder, const std::string& name,
                          const std::string& body) {
  const std::string path = folder / name;
  write_text(path,
             "#!/bin/sh\nfor last; do :; done\n"
             "if [ \"$last\" = --version ]; then echo fake 1; exit; fi\n" +
                 body + "\n");
  EXPECT_EQ(chmod(path.c_str(), 0755), 0);
  return path;
}

inline kernels::Compiler fake_compiler(const TemporaryFolder& folder, const std::string& body) {
  return {{script(folder, "fake", body)}, "fake 1"};
}

/// That of the system. Tests that need one are skipped where there is none.
inline kernels::Compiler system_compiler() {
  static const auto found = kernels::find_compiler("", kCompilerLimit);
  return found ? *found : kernels::Compiler{};
}

/// A kernel that writes `number` to the first buffer.
inline kernels::Source source_of(const std::string& function, const std::string& number) {
  kernels::Source source;
  source.text = "void " + function +
                "(char* const* buffers, const long* numbers, long begin, long end, long thread) {\n"
                "  *(long*)buffers[0] = " +
                number + ";\n}\n";
  source.functions = {function};
  return source;
}

/// What such a kernel writes.
inline int64_t value_of(kernels::Function function) {
  int64_t value = -1;
  char* const buffers[] = {reinterpret_cast<char*>(&value)};
  function(buffers, nullptr, 0, 1, 0);
  return value;
}

inline mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

}  // namespace antegrad::testing
