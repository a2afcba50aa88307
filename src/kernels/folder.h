#pragma once

/// \file
/// The private folder in which compiled files are kept between processes.
///
/// An entry is one file, NAME.so: a shared library, and behind it a record in text, which says what
/// it was made from and by what, and has the hash of the library. A sound entry is a regular file
/// of this user that nobody else can write, whose record is exactly the expected one. Whatever else
/// lies there is not used.
///
/// Any number of processes and threads may use one folder, also on a network file system: there are
/// no locks. An entry is made in a work folder beside the entries, and renamed when it is complete.
/// Several that make the same entry replace each other's equal files.
///
/// All access is relative to the folder as it was when it was checked, so that exchanging its path
/// changes nothing.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "files/file.h"
#include "kernels/outcome.h"

namespace antegrad::kernels {

class Folder {
 public:
  /// Makes it (mode 0700) if it is not there. Refuses one that another user owns or can write.
  static Outcome<Folder> open(const std::string& path);

  struct Entry {
    std::string library;  ///< empty if there is no sound entry
    std::string damage;   ///< why an entry that is there is not used
    File file;            ///< the entry
  };
  /// The library is what was checked, whatever happens to the file afterwards.
  Entry read(const std::string& name, std::string_view record) const;

  /// A folder for one compilation, removed with what it holds.
  class Work {
   public:
    Work(Work&& other) noexcept = default;
    Work& operator=(Work&&) = delete;
    ~Work();
    int directory() const { return directory_.number(); }
    std::optional<Failure> write(const std::string& name, std::string_view bytes) const;

   private:
    friend class Folder;
    Work(int folder, std::string name, File directory);
    int folder_;  // that of the Folder, which outlives it
    std::string name_;
    File directory_;
  };
  Outcome<Work> work() const;

  /// The library that a compilation left in `work`, and its entry. `damage` says why it could not
  /// be kept; the library can be used all the same.
  Entry keep(const Work& work, const std::string& name, std::string_view record) const;

  /// The text of a list that processes append to; empty if there is no sound one of at most
  /// `bytes`.
  std::string read_list(const std::string& name, size_t bytes) const;
  /// Appends in one write; begins anew where the list is not sound or would be longer than `bytes`.
  /// Whether it could.
  bool add_to_list(const std::string& name, std::string_view line, size_t bytes) const;

  /// Removes the entries used least recently until the others take no more than `bytes`, and work
  /// folders that killed processes left behind.
  void trim(int64_t bytes) const;

 private:
  explicit Folder(File directory) : directory_(std::move(directory)) {}
  File directory_;
};

}  // namespace antegrad::kernels
