#pragma once

/// \file
/// Measurements in other processes: this program again (for what only a fresh process can show), or
/// a peer written in Python.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/harness.h"

namespace antegrad::bench {

/// Runs a program and returns the last line of its output, which must be a JSON object. Throws
/// Error if the program fails or prints something else. The program inherits stderr.
nlohmann::json run_child(const std::vector<std::string>& command);

/// Runs this program again with these arguments.
nlohmann::json run_self(const std::vector<std::string>& arguments);

/// Runs bench/peers/<script> with the Python of ANTEGRAD_PYTHON. If there is none or the script
/// fails, returns nothing and prints a note to stderr, so that the bench still has its own results.
std::optional<nlohmann::json> run_peer(const std::string& script,
                                       const std::vector<std::string>& arguments);

/// Words on the command line of a peer that takes a model of bench/peers/subjects.py: its name, the
/// number of threads, and its numbers.
std::vector<std::string> peer_words(std::string model, const std::vector<int64_t>& numbers);

/// A peer that answers line by line, so that its steps and ours can be timed in turns. One owner,
/// one thread.
class PeerProcess {
 public:
  /// Starts bench/peers/<script>; see run_peer() for a missing Python.
  PeerProcess(const std::string& script, const std::vector<std::string>& arguments);
  /// Closes the peer's input and waits for it.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// Sends a line and returns the answer, a JSON object. Returns nothing if there is no peer or it
  /// has failed, with a note on stderr the first time.
  std::optional<nlohmann::json> ask(const std::string& line);

  /// Times our steps in turns with those of a peer that answers "step" with `step_ms`. In its turn
  /// each waits until the other's threads sleep, and runs one step that is not timed. Nothing
  /// without a peer.
  std::optional<Pair> time_turns(const std::string& label, int rounds,
                                 const std::function<void()>& step);

 private:
  void give_up(const std::string& why);
  std::optional<std::string> read_line();

  std::string script_;
  int socket_ = -1;  // -1: no peer is running
  pid_t child_ = -1;
  std::string unread_;
};

}  // namespace antegrad::bench
