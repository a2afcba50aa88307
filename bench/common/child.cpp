#include "common/child.h"

#include <antegrad/error.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/harness.h"

namespace antegrad::bench {
namespace {

[[noreturn]] void fail(const std::vector<std::string>& command, const std::string& found) {
  throw Error(ErrorText{"a JSON object from '" + command.front() + "'", found, ""});
}

// In the child: never returns.
[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// What the program writes to its stdout, and its exit status.
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
  const auto* python = std::getenv("ANTEGRAD_PYTHON");
  if (python == nullptr || *python == '\0') {
    note("no peer: ANTEGRAD_PYTHON, a Python that has torch, is not set");
    return std::nullopt;
  }
  std::vector<std::string> command = {python, std::string(ANTEGRAD_BENCH_PEERS) + "/" + script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  try {
    return run_child(command);
  } catch (const Error& error) {
    note(std::string("no peer: ") + error.what());
    return std::nullopt;
  }
}

}  // namespace antegrad::bench
