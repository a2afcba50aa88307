#pragma once

/// \file
/// A Redis server of a test or a benchmark, on a port of its own.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace antegrad::testing {

/// 127.0.0.1 with a port; 0 for any.
inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// A socket that listens on 127.0.0.1, and its port.
inline std::pair<int, uint16_t> listening_socket() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback(0);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket, any, length) != 0 || ::listen(socket, 8) != 0 ||
      ::getsockname(socket, any, &length) != 0) {
    throw std::runtime_error("no port of 127.0.0.1 can be listened on");
  }
  return {socket, ntohs(address.sin_port)};
}

inline uint16_t free_port() {
  const auto [socket, port] = listening_socket();
  ::close(socket);
  return port;
}

class RedisServer {
 public:
  /// Whether there is one to start.
  static bool exists() { return std::system("command -v redis-check-rdb > /dev/null") == 0; }

  /// `settings`: words of its command line.
  explicit RedisServer(std::vector<std::string> settings = {}, bool tls = false)
      : settings_(std::move(settings)), port_(free_port()) {
    const std::string port = std::to_string(port_);
    const std::vector<std::string> ports =
        tls ? std::vector<std::string>{"--port", "0", "--tls-port", port}
            : std::vector<std::string>{"--port", port};
    settings_.insert(settings_.begin(), ports.begin(), ports.end());
    start();
  }
  ~RedisServer() { stop(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  uint16_t port() const { return port_; }
  std::string url(const std::string& suffix = "") const {
    return "redis://127.0.0.1:" + std::to_string(port_) + suffix;
  }

  void start() {
    process_ = ::fork();
    if (process_ == 0) {
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(nowhere, STDOUT_FILENO);
      ::dup2(nowhere, STDERR_FILENO);
      std::vector<std::string> words{"redis-server", "--bind", "127.0.0.1", "--save", ""};
      words.insert(words.end(), settings_.begin(), settings_.end());
      std::vector<char*> arguments;
      for (auto& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      // The same program: Debian has it in redis-tools, which starts no server when it is
      // installed.
      ::execvp("redis-check-rdb", arguments.data());
      ::_exit(127);
    }
    for (int i = 0; i < 500 && !answers(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (!answers()) throw std::runtime_error("no Redis server on port " + std::to_string(port_));
  }

  void stop() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(std::exchange(process_, 0), nullptr, 0);
  }

 private:
  bool answers() const {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto address = loopback(port_);
    const bool connected =
        ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(socket);
    return connected;
  }

  std::vector<std::string> settings_;
  uint16_t port_;
  pid_t process_ = 0;
};

}  // namespace antegrad::testing
