#include "kernels/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "files/file.h"

namespace antegrad::kernels {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using End = ChildResult::End;

constexpr size_t kOutputKept = 64 << 10;
constexpr size_t kTextShown = 600;

/// Ours, but messages in English, temporary files in the child's directory, and nothing that
/// makes a compiler write further files or loads code into it.
std::vector<std::string> environment_of_child() {
  std::vector<std::string> all = {"LC_ALL=C", "TMPDIR=."};
  constexpr const char* kLeftOut[] = {"LC_ALL=",
                                      "TMPDIR=",
                                      "LANGUAGE=",
                                      "LD_PRELOAD=",
                                      "DEPENDENCIES_OUTPUT=",
                                      "SUNPRO_DEPENDENCIES="};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto starts = [&](const char* name) { return text.substr(0, strlen(name)) == name; };
    if (std::none_of(std::begin(kLeftOut), std::end(kLeftOut), starts)) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// 0, or an error number.
int spawn(std::vector<std::string> command, int directory, int output, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // In an order that works where the descriptors are some of the first three.
  if (directory >= 0) posix_spawn_file_actions_addfchdir_np(&actions, directory);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  auto environment = environment_of_child();
  const int error = posix_spawn(&pid, command.front().c_str(), &actions, &attributes,
                                pointers_to(command).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Reads what is there, at most what a pipe holds. Returns whether more may come.
bool drain(const File& pipe, std::string& output) {
  char buffer[4096];
  for (int reads = 0; reads < 16; ++reads) {
    const auto count = ::read(pipe.number(), buffer, sizeof buffer);
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    const size_t room = kOutputKept - output.size();
    output.append(buffer, std::min(room, static_cast<size_t>(count)));
  }
  return true;
}

/// Waits until it has ended, or the limit is reached. It stays a zombie, so that nobody else's
/// process can have its number.
ChildResult wait_for(pid_t pid, const File& pipe, milliseconds limit) {
  ChildResult result{};
  const auto deadline = Clock::now() + limit;
  for (bool open = true;;) {
    siginfo_t info{};
    const int failed = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
    if (failed != 0 && errno == EINTR) continue;
    if (failed != 0) {
      result.end = End::status_taken;
      break;
    }
    if (info.si_pid == pid) {
      result.end = info.si_code == CLD_EXITED ? End::exited : End::killed;
      result.code = info.si_status;
      break;
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      result.end = End::timed_out;
      break;
    }
    // The end of the output is usually that of the child. Otherwise, if somebody else holds the
    // pipe, the child is looked at now and then.
    pollfd event{pipe.number(), POLLIN, 0};
    ::poll(&event, open ? 1 : 0, static_cast<int>(std::min<int64_t>(left.count(), open ? 20 : 1)));
    if (open) open = drain(pipe, result.output);
  }
  drain(pipe, result.output);
  return result;
}

/// Waits for a child, or with a negative number for all children of that group.
void reap(pid_t pid) {
  while (true) {
    const pid_t ended = ::waitpid(pid, nullptr, 0);
    if (ended < 0 && errno != EINTR) return;
    if (ended == pid) return;
  }
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& command, int directory, milliseconds limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {End::not_started, errno, {}};
  const File output(ends[0]);
  File input(ends[1]);
  ::fcntl(output.number(), F_SETFL, O_NONBLOCK);
  pid_t pid = -1;
  if (const int error = spawn(command, directory, input.number(), pid)) {
    return {End::not_started, error, {}};
  }
  input.close();
  ChildResult result = wait_for(pid, output, limit);
  if (result.end != End::status_taken) {
    ::kill(-pid, SIGKILL);
    reap(pid);
    reap(-pid);  // of the group, what was handed to this process as the reaper of orphans
  }
  return result;
}

std::string describe(const ChildResult& result, milliseconds limit) {
  std::string text;
  switch (result.end) {
    case End::exited: text = fmt::format("exit status {}", result.code); break;
    case End::killed: text = fmt::format("killed by signal {}", result.code); break;
    case End::timed_out: text = fmt::format("not done after {} s", limit.count() / 1000.); break;
    case End::not_started: return "it does not start: " + error_text(result.code);
    case End::status_taken: text = "its exit status was taken by a handler of SIGCHLD"; break;
  }
  std::string shown = result.output.substr(0, kTextShown);
  while (!shown.empty() && shown.back() == '\n') shown.pop_back();
  for (char& c : shown) {
    if (c != '\n' && (c < ' ' || c > '~')) c = '.';
  }
  return shown.empty() ? text : text + ": " + shown;
}

}  // namespace antegrad::kernels
