#pragma once

/// \file
/// Runs a test of this program in several processes that form a group.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "support/folder.h"

namespace antegrad::testing {

class Networks;

/// Processes of this program, each with one test: "DISABLED_Rank.Trains". Killed with this object,
/// if they still run.
class Ranks {
 public:
  using Environment = std::map<std::string, std::string>;

  /// With what plain variables say, and `environment`. On this machine's loopback, or each in its
  /// part of `networks`.
  Ranks(const std::string& test, int count, const Environment& environment = {},
        const Networks* networks = nullptr);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void signal(int rank, int number) const;
  /// Waits for all. Whether they ended within `limit`; those that did not are killed.
  bool wait(std::chrono::seconds limit = std::chrono::seconds(240));
  /// After wait(): its status as a shell would say it, 128 and more for signals.
  int status(int rank) const { return status_[rank]; }
  /// What it printed so far.
  std::string output(int rank) const;
  /// Waits until a rank printed this.
  bool wait_for(int rank, const std::string& text,
                std::chrono::seconds limit = std::chrono::seconds(120)) const;

 private:
  TemporaryFolder folder_;
  std::vector<pid_t> pids_;
  std::vector<int> status_;
};

/// Runs the test on so many ranks, and expects that it passes on each.
void expect_on_ranks(const std::string& test, int count,
                     const Ranks::Environment& environment = {});

/// The names of cases, for ::testing::ValuesIn().
template <class Case>
std::vector<std::string> names_of(const std::map<std::string, Case>& cases) {
  std::vector<std::string> names;
  for (const auto& [name, one] : cases) names.push_back(name);
  return names;
}

/// Names tests whose parameters are a number of ranks and the name of a case: "usual_on_2".
struct CaseOnRanks {
  template <class Info>
  std::string operator()(const Info& info) const {
    return std::get<1>(info.param) + "_on_" + std::to_string(std::get<0>(info.param));
  }
};

/// What the error says that `run` throws; empty if it throws none of this kind.
template <class Kind, class Run>
std::string message_of(Run run) {
  try {
    run();
  } catch (const Kind& error) {
    return error.what();
  }
  return "";
}

}  // namespace antegrad::testing
