#include "common/child.h"

#include <ATen/Parallel.h>
#include <antegrad/error.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "common/harness.h"

namespace antegrad::bench {
namespace {

[[noreturn]] void fail(const std::vector<std::string>& command, const std::string& found) {
  throw Error(ErrorText{"a JSON object from '" + command.front() + "'", found, ""});
}

// Runs in the child; never returns.
[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// The stdout of a program and its exit status.
std::pair<std::string, int> output_of(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe(ends) != 0) fail(command, "no pipe");
  const auto child = fork();
  if (child < 0) fail(command, "no process");
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    become(command);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

// Empty, with a note, if no Python is configured.
std::vector<std::string> peer_command(const std::string& script,
                                      const std::vector<std::string>& arguments) {
  const auto* python = std::getenv("ANTEGRAD_PYTHON");
  if (python == nullptr || *python == '\0') {
    note("no peer: ANTEGRAD_PYTHON, a Python that has torch, is not set");
    return {};
  }
  std::vector<std::string> command = {python, std::string(ANTEGRAD_BENCH_PEERS) + "/" + script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace

nlohmann::json run_child(const std::vector<std::string>& command) {
  auto [text, status] = output_of(command);
  if (status == 127) fail(command, "a program that cannot be started");
  if (status != 0) fail(command, "exit status " + std::to_string(status));
  text.erase(text.find_last_not_of("\r\n \t") + 1);
  const auto start = text.rfind('\n');
  const auto line = start == std::string::npos ? text : text.substr(start + 1);
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail(command, "'" + line + "'");
  return json;
}

nlohmann::json run_self(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_child(command);
}

std::optional<nlohmann::json> run_peer(const std::string& script,
                                       const std::vector<std::string>& arguments) {
  const auto command = peer_command(script, arguments);
  if (command.empty()) return std::nullopt;
  try {
    return run_child(command);
  } catch (const Error& error) {
    note(std::string("no peer: ") + error.what());
    return std::nullopt;
  }
}

std::vector<std::string> peer_words(std::string model, const std::vector<int64_t>& numbers) {
  std::vector<std::string> words = {std::move(model), std::to_string(at::get_num_threads())};
  for (const auto number : numbers) words.push_back(std::to_string(number));
  return words;
}

PeerProcess::PeerProcess(const std::string& script, const std::vector<std::string>& arguments)
    : script_(script) {
  const auto command = peer_command(script, arguments);
  if (command.empty()) return;
  // A socket instead of pipes: writing to a peer that has ended is then an error of send() instead
  // of a signal.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    give_up("no socket");
    return;
  }
  socket_ = ends[0];
  child_ = fork();
  if (child_ == 0) {
    dup2(ends[1], STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    become(command);
  }
  close(ends[1]);
  if (child_ < 0) give_up("no process");
}

PeerProcess::~PeerProcess() {
  if (socket_ >= 0) close(socket_);
  if (child_ > 0) waitpid(child_, nullptr, 0);
}

void PeerProcess::give_up(const std::string& why) {
  note("no peer: " + script_ + ": " + why);
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

std::optional<std::string> PeerProcess::read_line() {
  char buffer[4096];
  while (unread_.find('\n') == std::string::npos) {
    const auto count = read(socket_, buffer, sizeof buffer);
    if (count <= 0) return std::nullopt;
    unread_.append(buffer, static_cast<size_t>(count));
  }
  const auto end = unread_.find('\n');
  auto line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

std::optional<nlohmann::json> PeerProcess::ask(const std::string& line) {
  if (socket_ < 0) return std::nullopt;
  const auto text = line + "\n";
  const bool sent =
      send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  const auto answer = sent ? read_line() : std::nullopt;
  if (!answer) {
    give_up("it ended at '" + line + "'");
    return std::nullopt;
  }
  auto json = nlohmann::json::parse(*answer, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  give_up("it answered '" + *answer + "' to '" + line + "'");
  return std::nullopt;
}

std::optional<Pair> PeerProcess::time_turns(const std::string& label, int rounds,
                                            const std::function<void()>& step) {
  // Idle threads of OpenMP look for work for some milliseconds before they sleep.
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  bool answered = socket_ >= 0;
  const auto ours = [&] {
    wait();
    step();
    return time_ms(step);
  };
  const auto theirs = [&] {
    wait();
    if (answered) answered = ask("step").has_value();
    const auto answer = answered ? ask("step") : std::nullopt;
    answered = answer.has_value();
    return answered ? answer->at("step_ms").get<double>() : 1.0;
  };
  if (!answered) return std::nullopt;
  const auto pair = pairs_of(label, rounds, ours, theirs);
  return answered ? std::optional(pair) : std::nullopt;
}

}  // namespace antegrad::bench
