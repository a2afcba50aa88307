#include "common/processes.h"

#include <antegrad/error.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <utility>

namespace antegrad::examples {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

pid_t start(const std::string& program, std::vector<std::string> arguments,
            std::vector<std::string> environment) {
  arguments.insert(arguments.begin(), program);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), nullptr, nullptr,
                                  pointers(arguments).data(), pointers(environment).data());
  if (error != 0) throw Error(program + " could not be started");
  return pid;
}

}  // namespace

bool is_launched() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// Below the ports that the system gives to connections, one of which could take it meanwhile.
int free_port() {
  constexpr int kFirst = 12'000, kLast = 31'999;
  constexpr int kAttempts = 100;
  std::random_device random;
  std::uniform_int_distribution<int> ports(kFirst, kLast);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int port = ports(random);
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool bound = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ::close(socket);
    if (bound) return port;
  }
  throw Error("no free port on this machine");
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

int run_ranks(int ranks, const std::string& program, const std::vector<std::string>& arguments) {
  const auto port = std::to_string(free_port());
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> environment;
    for (char** known = environ; *known != nullptr; ++known) environment.emplace_back(*known);
    for (const auto& [name, value] :
         {std::pair<std::string, std::string>{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(ranks)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", port},
          {"GLOO_SOCKET_IFNAME", "lo"},
          {"OMP_NUM_THREADS", "1"}}) {
      environment.push_back(name + "=" + value);
    }
    pids.push_back(start(program, arguments, std::move(environment)));
  }
  int failed = 0;
  for (size_t ended = 0; ended < pids.size(); ++ended) {
    int status = 0;
    ::waitpid(-1, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 0 || failed != 0) continue;
    failed = code;
    for (const pid_t pid : pids) ::kill(pid, SIGTERM);
  }
  return failed;
}

}  // namespace antegrad::examples
