#pragma once

/// \file
/// The file in which rates (rates.h) of machines are kept between processes: JSON,
/// {"version": 1, "machines": {machine: {class: rate}}}.
///
/// Several processes may start at once. Whoever measures holds the lock, so that the others read
/// what the first one found, and all make the same plans. Files are replaced as a whole: a reader
/// never sees a part of one.

#include <string>

#include "cost/rates.h"

namespace antegrad {

/// The directory that the option cache_dir names; else $XDG_CACHE_HOME/antegrad; else
/// $HOME/.cache/antegrad; empty if neither is set.
std::string cache_directory(const std::string& named);

class RatesFile {
 public:
  /// Makes the directory, and waits for other processes that hold the lock. An empty path, or a
  /// directory that cannot be written, is a file without rates that keeps nothing.
  explicit RatesFile(std::string path);
  ~RatesFile();
  RatesFile(const RatesFile&) = delete;
  RatesFile& operator=(const RatesFile&) = delete;

  /// Those of one machine, by a name of the caller's. None if the file is damaged.
  Rates read(const std::string& machine);
  /// Why the last read() ignored the file; empty if it did not.
  const std::string& damage() const { return damage_; }
  /// Replaces those of one machine. Returns whether they were written.
  bool write(const std::string& machine, const Rates& rates) const;

 private:
  std::string path_;
  std::string damage_;
  int lock_ = -1;
};

}  // namespace antegrad
