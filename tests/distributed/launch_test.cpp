#include "distributed/launch.h"

#include <antegrad/antegrad.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <string>

#include "common/processes.h"
#include "distributed/ranks.h"

namespace antegrad::testing::launch_test {
namespace {

using distributed::Launch;
using distributed::read_launch;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Launch launch_of(const Variables& variables) {
  return read_launch([&](const char* name) {
    const auto known = variables.find(name);
    return known == variables.end() ? std::nullopt : std::optional(known->second);
  });
}

std::string error_of(const Variables& variables) {
  try {
    launch_of(variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, WithoutALauncherIsAGroupOfOne) {
  EXPECT_EQ(launch_of({}).size, 1);
  EXPECT_EQ(launch_of({{"MASTER_PORT", "7"}}).rank, 0);
  EXPECT_EQ(launch_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).port, 0);
}

TEST(Launch, PlainVariablesSayAll) {
  const auto launch = launch_of(
      {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.host, "node");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_EQ(launch.local_rank, 2);
  EXPECT_FALSE(launch.served);
}

TEST(Launch, TorchrunServesTheStoreAndCountsAttempts) {
  const auto launch = launch_of({{"RANK", "3"},
                                 {"WORLD_SIZE", "4"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "2"},
                                 {"MASTER_ADDR", "localhost"},
                                 {"MASTER_PORT", "4000"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                 {"TORCHELASTIC_RESTART_COUNT", "3"}});
  EXPECT_TRUE(launch.served);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.prefix, "/worker/attempt_3");
}

TEST(Launch, ProcessesOfAnMpiJobOnOneMachineMeetAtAPortOfTheJob) {
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "0"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "job-1"}};
  const auto first = launch_of(open_mpi);
  EXPECT_EQ(first.host, "127.0.0.1");
  EXPECT_GE(first.port, 20000);
  EXPECT_LT(first.port, 30000);
  auto second = open_mpi;
  second["OMPI_COMM_WORLD_RANK"] = "1";
  EXPECT_EQ(launch_of(second).port, first.port);
  second["PMIX_NAMESPACE"] = "job-2";
  EXPECT_NE(launch_of(second).port, first.port);
  // On several machines nobody can guess.
  auto wide = open_mpi;
  wide["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_THAT(error_of(wide), HasSubstr("MASTER_ADDR"));
  EXPECT_EQ(
      launch_of(
          {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "node"}, {"MASTER_PORT", "1"}})
          .rank,
      1);
}

TEST(Launch, SaysWhichVariableIsWrong) {
  EXPECT_THAT(error_of({{"RANK", "0"}}), HasSubstr("expected WORLD_SIZE"));
  EXPECT_THAT(error_of({{"WORLD_SIZE", "2"}}), HasSubstr("expected RANK"));
  EXPECT_THAT(error_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK from 0 to 1"));
  EXPECT_THAT(error_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), HasSubstr("\"x\""));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}),
              HasSubstr("MASTER_PORT"));
  EXPECT_THAT(
      error_of(
          {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
      HasSubstr("MASTER_PORT from 1 to 65535"));
}

// --- real launchers ------------------------------------------------------------------------------

// Of the launcher: 0 if all ranks passed. Its output is printed if it failed.
int launched(const std::string& command) {
  const auto program = "OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo ANTEGRAD_SHARDED_CASE=usual " +
                       command + " '" + examples::this_program() +
                       "' --gtest_filter=DISABLED_Rank.Trains --gtest_also_run_disabled_tests "
                       "--gtest_brief=1 2>&1";
  return std::system(program.c_str());  // NOLINT
}

bool is_there(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;  // NOLINT
}

TEST(Launchers, Torchrun) {
  const char* const python = std::getenv("ANTEGRAD_TEST_PYTHON");
  const auto torchrun =
      std::string(python == nullptr ? "python3" : python) + " -m torch.distributed.run";
  if (!is_there(torchrun + " --help")) GTEST_SKIP() << "no torchrun: " << torchrun;
  EXPECT_EQ(launched(torchrun + " --no-python --nproc-per-node 2 --master-port " +
                     std::to_string(examples::free_port())),
            0);
}

TEST(Launchers, Mpirun) {
  if (!is_there("mpirun --version")) GTEST_SKIP() << "no mpirun (openmpi-bin)";
  EXPECT_EQ(launched("mpirun --allow-run-as-root --oversubscribe -n 2"), 0);
}

}  // namespace
}  // namespace antegrad::testing::launch_test
