#include "distributed/networks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace antegrad::testing {
namespace {

constexpr const char* kInterface = "rank";  // of each rank, in its network
constexpr const char* kPort = "20000";      // free: nobody else is in the network of rank 0

std::string address(int rank) { return fmt::format("10.0.0.{}", rank + 1); }
std::string network(int rank) { return fmt::format("network{}", rank); }
std::string link_of(int rank) { return fmt::format("link{}", rank); }

File opened(const std::string& path) { return File(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

}  // namespace

/// Runs commands. Ends with its input.
class Networks::Shell {
 public:
  explicit Shell(std::vector<std::string> words) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    line_ = File(ends[0]);
    const File other(ends[1]);
    posix_spawn_file_actions_t streams;
    ::posix_spawn_file_actions_init(&streams);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_adddup2(&streams, other.number(), stream);
    }
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (::posix_spawnp(&pid_, arguments[0], &streams, nullptr, arguments.data(), environ) != 0) {
      pid_ = -1;
    }
    ::posix_spawn_file_actions_destroy(&streams);
  }
  ~Shell() {
    line_.close();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  pid_t pid() const { return pid_; }

  /// What it printed, if it failed; empty if not.
  std::string run(const std::string& command) {
    static const std::string kEnd = "status ";
    const auto line = fmt::format("{{ {}; }} 2>&1; echo {}$?\n", command, kEnd);
    std::string output;
    if (::send(line_.number(), line.data(), line.size(), MSG_NOSIGNAL) > 0) {
      char one = 0;
      while (::read(line_.number(), &one, 1) == 1) {
        output += one;
        if (one != '\n') continue;
        const auto at = output.rfind(kEnd);
        if (at == std::string::npos) continue;
        if (output.substr(at + kEnd.size()) == "0\n") return "";
        return command + ": " + output.substr(0, at);
      }
    }
    return command + ": the shell ended: " + output;
  }

 private:
  pid_t pid_ = -1;
  File line_;
};

Networks::Networks(int count) {
  const std::vector<std::vector<std::string>> ways = {
      {"unshare", "--net", "--mount", "sh"},
      {"unshare", "--user", "--map-root-user", "--net", "--mount", "sh"},
  };
  for (const auto& way : ways) {
    const auto failure = make(way, count);
    if (failure.empty()) {
      missing_.clear();
      return;
    }
    missing_ += fmt::format("{}: {}\n", fmt::join(way, " "), failure);
  }
}

Networks::~Networks() = default;

std::string Networks::make(std::vector<std::string> prefix, int count) {
  shell_ = std::make_unique<Shell>(std::move(prefix));
  if (shell_->pid() < 0) return "it could not be started";
  std::vector<std::string> commands = {"mount -t tmpfs none /run", "mkdir /run/netns",
                                       "ip link add switch type bridge", "ip link set switch up"};
  for (int rank = 0; rank < count; ++rank) {
    const auto in_network = "ip -n " + network(rank);
    commands.insert(commands.end(), {"ip netns add " + network(rank),
                                     fmt::format("ip link add {} type veth peer name {} netns {}",
                                                 link_of(rank), kInterface, network(rank)),
                                     fmt::format("ip link set {} master switch up", link_of(rank)),
                                     fmt::format("{} address add {}/24 dev {}", in_network,
                                                 address(rank), kInterface),
                                     fmt::format("{} link set {} up", in_network, kInterface),
                                     fmt::format("{} link set lo up", in_network)});
  }
  for (const auto& command : commands) {
    if (auto failure = shell_->run(command); !failure.empty()) return failure;
  }
  const auto process = fmt::format("/proc/{}", shell_->pid());
  users_ = opened(process + "/ns/user");
  networks_.clear();
  for (int rank = 0; rank < count; ++rank) {
    networks_.push_back(opened(fmt::format("{}/root/run/netns/{}", process, network(rank))));
    if (!networks_.back()) return "its networks cannot be opened: " + error_text(errno);
  }
  return "";
}

std::map<std::string, std::string> Networks::environment() const {
  return {{"MASTER_ADDR", address(0)}, {"MASTER_PORT", kPort}, {"GLOO_SOCKET_IFNAME", kInterface}};
}

bool Networks::enter(int rank) const {
  // Refused with EINVAL where it is the namespace that this process is in.
  if (::setns(users_.number(), CLONE_NEWUSER) != 0 && errno != EINVAL) return false;
  return ::setns(networks_[rank].number(), CLONE_NEWNET) == 0;
}

void Networks::cut(int rank) {
  EXPECT_EQ(shell_->run(fmt::format("ip link set {} down", link_of(rank))), "");
}

void Networks::cut_between(int a, int b) {
  EXPECT_EQ(shell_->run(fmt::format("ip -n {} route add blackhole {}/32", network(a), address(b))),
            "");
}

void Networks::join(int rank) {
  EXPECT_EQ(shell_->run(fmt::format("ip link set {} up", link_of(rank))), "");
}

}  // namespace antegrad::testing
