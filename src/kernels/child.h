#pragma once

/// \file
/// Runs a program in a child process and waits for it.
///
/// May be called on any thread, also on several at once. The child is started by posix_spawn
/// without a shell: no handler of fork() runs, and a process with much memory costs no more than a
/// small one. It has a process group of its own, which is killed as a whole; default signal
/// handlers, no blocked signals, an empty standard input, no open files of ours. Nothing is left
/// behind: no zombie, no process of the group.
///
/// A host may wait for all its children (a handler of SIGCHLD, or SIGCHLD ignored). It then takes
/// the exit status, and the result says so.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace antegrad::kernels {

struct ChildResult {
  enum class End : uint8_t {
    exited,        ///< `code` is its exit status
    killed,        ///< `code` is the signal
    timed_out,     ///< it was killed after the limit
    not_started,   ///< `code` is the error number
    status_taken,  ///< it ended; the host took its exit status
  };
  End end;
  int code = 0;
  std::string output;  ///< the first 64 KiB of what it wrote to standard output and error

  bool succeeded() const { return end == End::exited && code == 0; }
};

/// `command` is the absolute path of a program, and its arguments. `directory` is a descriptor of
/// the directory in which it runs and keeps temporary files, or -1: that of this process.
ChildResult run_child(const std::vector<std::string>& command, int directory,
                      std::chrono::milliseconds limit);

/// "exit status 1: " and the first lines of the output; unprintable bytes are dots.
std::string describe(const ChildResult& result, std::chrono::milliseconds limit);

}  // namespace antegrad::kernels
