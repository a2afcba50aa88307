#pragma once

/// \file
/// File descriptors, and reading and writing through them.

#include <string>
#include <string_view>

namespace antegrad {

/// Owns a file descriptor; a negative one is none.
class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File() { close(); }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void close();

 private:
  int number_;
};

/// Writes all bytes. 0, or an error number.
int write_all(const File& file, std::string_view bytes);

/// Reads from here to the end, at most `bytes`. 0, or an error number.
int read_up_to(const File& file, size_t bytes, std::string& to);

/// What an error number means.
std::string error_text(int error);

}  // namespace antegrad
