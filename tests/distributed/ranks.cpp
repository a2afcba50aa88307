#include "distributed/ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/processes.h"
#include "distributed/networks.h"

namespace antegrad::testing {

Ranks::Ranks(const std::string& test, int count, const Environment& environment,
             const Networks* networks)
    : status_(count, -1) {
  const auto self = examples::this_program();
  auto all = environment;
  if (networks != nullptr) all.merge(networks->environment());
  all.insert({{"WORLD_SIZE", std::to_string(count)},
              {"MASTER_ADDR", "127.0.0.1"},
              {"MASTER_PORT", std::to_string(examples::free_port())},
              {"OMP_NUM_THREADS", "1"},
              {"GLOO_SOCKET_IFNAME", "lo"}});
  for (int rank = 0; rank < count; ++rank) {
    all["RANK"] = std::to_string(rank);
    std::vector<std::string> variables;
    for (char** known = environ; *known != nullptr; ++known) {
      const std::string variable = *known;
      if (!all.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
    }
    for (const auto& [name, value] : all) variables.push_back(name + "=" + value);
    std::vector<std::string> words = {self, "--gtest_filter=" + test,
                                      "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
    std::vector<char*> arguments, environment_of_rank;
    for (auto& word : words) arguments.push_back(word.data());
    for (auto& variable : variables) environment_of_rank.push_back(variable.data());
    arguments.push_back(nullptr);
    environment_of_rank.push_back(nullptr);
    const auto log = folder_ / std::to_string(rank);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (networks != nullptr && !networks->enter(rank)) ::_exit(126);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphans
      if (::getppid() != parent) ::_exit(1);
      const int file = ::open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
      ::execve(self.c_str(), arguments.data(), environment_of_rank.data());
      ::_exit(127);
    }
    pids_.push_back(pid);
  }
}

Ranks::~Ranks() { wait(std::chrono::seconds(0)); }

void Ranks::signal(int rank, int number) const { ::kill(pids_[rank], number); }

bool Ranks::wait(std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  bool in_time = true;
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    if (status_[rank] >= 0) continue;
    int status = 0;
    while (::waitpid(pids_[rank], &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() >= end) {
        in_time = false;
        ::kill(pids_[rank], SIGKILL);
        ::waitpid(pids_[rank], &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    status_[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return in_time;
}

std::string Ranks::output(int rank) const {
  std::ifstream in(folder_ / std::to_string(rank));
  return {std::istreambuf_iterator<char>(in), {}};
}

bool Ranks::wait_for(int rank, const std::string& text, std::chrono::seconds limit) const {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (output(rank).find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void expect_on_ranks(const std::string& test, int count, const Ranks::Environment& environment) {
  Ranks ranks(test, count, environment);
  EXPECT_TRUE(ranks.wait()) << "they did not end";
  for (int rank = 0; rank < count; ++rank) {
    EXPECT_EQ(ranks.status(rank), 0) << "rank " << rank << " of " << count << ":\n"
                                     << ranks.output(rank);
  }
}

}  // namespace antegrad::testing
