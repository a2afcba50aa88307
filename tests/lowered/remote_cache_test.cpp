// Plans and kernels from a server, in processes that share nothing else.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <string>

#include "exact_options.h"
#include "processes.h"
#include "remote/remote_cache.h"
#include "support/bits.h"
#include "support/folder.h"
#include "support/kernels.h"
#include "support/redis_server.h"

namespace antegrad::testing {
namespace remote_processes_test {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Trains with the server that the environment names. Its plan is to come from where the environment
// says, and there are to be kernels or none.
TEST(RemoteProcess, TrainsInAProcessOfItsOwn) {
  const auto url = from_environment("ANTEGRAD_TEST_REMOTE");
  if (url.empty()) GTEST_SKIP() << "runs in the processes of other tests";
  auto step = compile(loss_of_rows, exact().with_memory_share(0.5).with_remote_cache(url));
  EXPECT_TRUE(same_bits(gradients_of_rows([&](const List& xs) { return step(xs); }),
                        gradients_of_rows(loss_of_rows)));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  const auto& program = report.programs.at(0);
  const auto plan = program.plan_cache + " " + program.plan_cache_reason;
  EXPECT_TRUE(plan.starts_with(from_environment("ANTEGRAD_TEST_PLAN"))) << plan;
  const auto bare = from_environment("ANTEGRAD_TEST_BARE");
  if (bare != "perhaps") {
    EXPECT_EQ(program.generated_kernels.empty(), !bare.empty()) << program.lowering_failure;
  }
  std::cout << remote_cache_stats();
}

class RemoteProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_compiler()) GTEST_SKIP() << "no compiler";
    if (!has_redis()) GTEST_SKIP() << "built without hiredis and OpenSSL";
    if (!RedisServer::exists()) GTEST_SKIP() << "there is no redis-server";
  }

  // What the process printed; empty if it failed. `caches`: its folder.
  std::string train(const std::string& caches, const std::string& plan,
                    const std::string& environment = "ANTEGRAD_REMOTE_CACHE_KEY=ours") const {
    const auto all = "ANTEGRAD_TEST_REMOTE=" + server_.url() + " ANTEGRAD_TEST_PLAN='" + plan +
                     "' XDG_CACHE_HOME=" + caches + " " + environment;
    const int status = run_test("RemoteProcess.TrainsInAProcessOfItsOwn", all, folder_ / "log");
    EXPECT_EQ(status, 0) << all << "\n" << text_of(folder_ / "log");
    return text_of(folder_ / "log");
  }
  std::string caches(const std::string& name) const { return folder_ / name; }

  // The entries of the server, changed.
  void change(const std::function<void(std::string&)>& change) const {
    auto redis = Redis::connect(remote_address(server_.url()), {});
    ASSERT_TRUE(redis);
    const auto entries = (*redis)->list(kRemotePrefix);
    ASSERT_FALSE(entries->empty());
    for (const auto& entry : *entries) {
      auto value = **(*redis)->get(entry.key, kMostRemoteBytes);
      change(value);
      ASSERT_FALSE((*redis)->set(entry.key, value, kRemoteLife));
    }
  }

  TemporaryFolder folder_;
  std::optional<RedisServer> running_{std::in_place};
  RedisServer& server_ = *running_;
};

// Nothing can be made in /proc.
const std::string kBare = " PATH=/none CC= HOME=/proc/none";

TEST_F(RemoteProcesses, ShareKernelsWithAKey) {
  train(caches("first"), "miss ");
  // A machine without a compiler and without a place for files.
  const auto printed =
      train("/proc/none", "hit from the server", "ANTEGRAD_REMOTE_CACHE_KEY=ours" + kBare);
  EXPECT_NE(printed.find("1 hits"), std::string::npos) << printed;
  // What is on disk is not asked for, wherever it came from.
  train(caches("first"), "hit from the folder");
  const auto without_compiler = "ANTEGRAD_REMOTE_CACHE_KEY=ours PATH=/none CC= HOME=/proc/none";
  train(caches("second"), "hit from the server", without_compiler);
  running_->stop();
  const auto alone = train(caches("second"), "hit from the folder");
  EXPECT_NE(alone.find("0 failures"), std::string::npos) << alone;
}

TEST_F(RemoteProcesses, SharePlansAloneWithoutOne) {
  train(caches("first"), "miss ", "");
  train(caches("second"), "hit from the server", "");
  // Here nothing compiles them.
  train("/proc/none", "", "ANTEGRAD_TEST_BARE=1" + kBare);
}

TEST_F(RemoteProcesses, TakeNothingOfOtherGroups) {
  train(caches("first"), "miss ");
  train(caches("second"), "miss ", "ANTEGRAD_REMOTE_CACHE_KEY=theirs");
  train(caches("third"), "miss ", "");
  train(caches("fourth"), "hit from the server");
  // Somebody who does not know the key changes the code.
  change([](std::string& value) { value[value.size() / 2] ^= 1; });
  const auto printed = train(caches("fifth"), "miss ");
  EXPECT_NE(printed.find("1 rejected"), std::string::npos) << printed;
}

// What libtorch may use of the CPU is part of the key, and so are the features of the CPU.
TEST_F(RemoteProcesses, TakeNothingMadeForOtherCpus) {
  train(caches("first"), "miss ");
  if (from_environment("ATEN_CPU_CAPABILITY").empty()) {
    train(caches("second"), "miss ",
          "ANTEGRAD_REMOTE_CACHE_KEY=ours ANTEGRAD_TEST_BARE=perhaps ATEN_CPU_CAPABILITY=default");
  }
  train(caches("fourth"), "hit from the server");
}

TEST_F(RemoteProcesses, TrainWhateverTheServerHas) {
  train(caches("first"), "miss ", "");
  // Unsealed entries, whose text can be made to pass as a bundle: the plan is checked as it is
  // used.
  change([](std::string& value) {
    for (size_t at = value.find("\"plan\""); at < value.size(); at += 97) value[at] ^= 4;
  });
  const auto damaged = train(caches("second"), "miss ", "");
  EXPECT_NE(damaged.find("1 rejected"), std::string::npos) << damaged;
  train(caches("third"), "hit from the server", "");  // it was mended
  change([](std::string& value) { value.resize(value.size() / 2); });
  train(caches("fourth"), "miss ", "");
  change([](std::string& value) { value = "something else"; });
  train(caches("fifth"), "miss ", "");
  running_.reset();
  train(caches("sixth"), "miss ", "");
}

}  // namespace remote_processes_test
}  // namespace antegrad::testing
