#pragma once

/// \file
/// A private folder, in which entries are kept between processes: compiled kernels, plans.
///
/// An entry is one file, NAME and the suffix of its folder: its contents, and behind them a record
/// in text, which says what they were made from and has their hash. A sound entry is a regular file
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
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/file.h"
#include "files/outcome.h"

namespace antegrad {

/// Why a folder cannot be used.
struct FolderFailure {
  enum class Kind : uint8_t {
    refused,       ///< it is another user's, or open to others
    not_writable,  ///< it cannot be made, or nothing can be made in it
    full,          ///< the disk is
  };
  Kind kind;
  std::string text;  ///< what was found, in words; starts with a lower-case letter, no full stop
};

class PrivateFolder {
 public:
  /// Makes it (mode 0700) if it is not there. Refuses one that another user owns or can write.
  /// `suffix`: of its entries, with the dot.
  static Outcome<PrivateFolder, FolderFailure> open(const std::string& path, std::string suffix);

  struct Entry {
    std::string bytes;   ///< empty if there is no sound entry
    std::string damage;  ///< why an entry that is there is not used
    File file;           ///< the entry
  };
  /// The bytes are what was checked, whatever happens to the file afterwards.
  Entry read(const std::string& name, std::string_view record) const;

  /// A folder for making one entry, removed with what it holds.
  class Work {
   public:
    Work(Work&& other) noexcept = default;
    Work& operator=(Work&&) = delete;
    ~Work();
    int directory() const { return directory_.number(); }
    std::optional<FolderFailure> write(const std::string& name, std::string_view bytes) const;

   private:
    friend class PrivateFolder;
    Work(int folder, std::string name, File directory);
    int folder_;  // that of the PrivateFolder, which outlives it
    std::string name_;
    File directory_;
  };
  Outcome<Work, FolderFailure> work() const;

  /// What the file `made` in `work` holds, which becomes an entry. `damage` says why it could not
  /// be kept; the bytes can be used all the same.
  Entry keep(const Work& work, const std::string& made, const std::string& name,
             std::string_view record) const;

  /// Makes an entry of these bytes. Returns why it could not be kept, in words; empty if it was.
  std::string keep_bytes(std::string_view bytes, const std::string& name,
                         std::string_view record) const;

  /// The text of a list that processes append to; empty if there is no sound one of at most
  /// `bytes`.
  std::string read_list(const std::string& name, size_t bytes) const;
  /// Appends in one write; begins anew where the list is not sound or would be longer than `bytes`.
  /// Whether it could.
  bool add_to_list(const std::string& name, std::string_view line, size_t bytes) const;

  /// An entry as it lies there, sound or not.
  struct Listed {
    std::string name;  ///< without the suffix
    int64_t bytes = 0;
    timespec used = {};
  };
  /// Those used least recently first.
  std::vector<Listed> list() const;
  /// Contents and record of an entry, unchecked but for who owns and can write it; `damage` says
  /// why there are none.
  Entry read_unchecked(const std::string& name) const;
  bool remove(const std::string& name) const;

  /// Removes the entries used least recently until the others take no more than `bytes`, and work
  /// folders that killed processes left behind.
  void trim(int64_t bytes) const;

 private:
  PrivateFolder(File directory, std::string suffix)
      : directory_(std::move(directory)), suffix_(std::move(suffix)) {}

  File directory_;
  std::string suffix_;
};

/// The record of an entry with these contents: `record`, and a line with their hash.
std::string full_record(std::string_view record, std::string_view contents);

/// The two parts of an entry whose record begins with `first_words`. Nothing if there is no such
/// record, or if the contents have another hash.
struct EntryParts {
  std::string_view contents;
  std::string_view record;
};
std::optional<EntryParts> parts_of_entry(std::string_view bytes, std::string_view first_words);

}  // namespace antegrad
