#pragma once

/// \file
/// A network of its own for each of some processes, whose links can be cut.

#include <memory>
#include <string>
#include <vector>

#include "distributed/ranks.h"
#include "files/file.h"

namespace antegrad::testing {

/// Network namespaces of Linux, one for each rank, joined by a switch. Needs the commands `unshare`
/// and `ip`, and the rights of an administrator or namespaces of users. Nothing of it outlives this
/// object, or this process.
class Networks {
 public:
  explicit Networks(int count);
  ~Networks();
  Networks(const Networks&) = delete;
  Networks& operator=(const Networks&) = delete;

  /// Why there are none on this machine; empty if there are.
  const std::string& missing() const { return missing_; }
  /// Where the ranks meet, and through which interface.
  std::map<std::string, std::string> environment() const;

  /// Moves this process, which must have one thread, to the network of a rank. Calls nothing that a
  /// forked child must not call. Whether it could.
  bool enter(int rank) const;

  /// From now on nothing reaches the rank or comes from it. No connection is closed.
  void cut(int rank);
  void join(int rank);
  /// From now on nothing of rank `a` reaches rank `b`.
  void cut_between(int a, int b);

 private:
  class Shell;
  /// What went wrong; empty if nothing did.
  std::string make(std::vector<std::string> prefix, int count);

  std::unique_ptr<Shell> shell_;  // in the network of the switch
  std::string missing_;
  File users_;  // the shell's namespace of users
  std::vector<File> networks_;
};

}  // namespace antegrad::testing
