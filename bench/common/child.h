#pragma once

/// \file
/// Other processes that measure something: this very program again (for what only a cold process
/// can show), or a peer written in Python.

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace antegrad::bench {

/// Runs a program and returns the last line of what it prints, which must be a JSON object. Throws
/// Error when the program fails or prints something else. Its stderr is ours.
nlohmann::json run_child(const std::vector<std::string>& command);

/// Runs this program again with these arguments.
nlohmann::json run_self(const std::vector<std::string>& arguments);

/// Runs bench/peers/<script> with the Python of ANTEGRAD_PYTHON. Nothing, with a note on stderr,
/// when there is none or the script fails: a peer is no reason to have no results.
std::optional<nlohmann::json> run_peer(const std::string& script,
                                       const std::vector<std::string>& arguments);

/// A peer that answers line by line, so that what it does can be timed in turn with what we do. One
/// owner, one thread.
class PeerProcess {
 public:
  /// Starts bench/peers/<script>; without a Python as run_peer().
  PeerProcess(const std::string& script, const std::vector<std::string>& arguments);
  /// Lets it read the end of its input, and waits for it.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// Sends a line, returns the line that comes back: a JSON object. Nothing, with a note on stderr
  /// the first time, when there is no peer or it has failed.
  std::optional<nlohmann::json> ask(const std::string& line);

 private:
  void give_up(const std::string& why);
  std::optional<std::string> read_line();

  std::string script_;
  int socket_ = -1;  // -1: there is none any more
  pid_t child_ = -1;
  std::string unread_;
};

}  // namespace antegrad::bench
