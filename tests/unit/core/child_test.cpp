// Child processes: how they end, what they inherit, and that nothing of them is left.

#include "kernels/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "kernel_files.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace child_test {

using kernels::ChildResult;
using End = ChildResult::End;
using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000}, kShort{200};

ChildResult shell(const std::string& text, milliseconds limit = kLong, int directory = -1) {
  return kernels::run_child({"/bin/sh", "-c", text}, directory, limit);
}

/// Orphans of the children become this process's own, so that it sees all that is left.
class ReaperOfOrphans {
 public:
  ReaperOfOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~ReaperOfOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

void expect_no_children() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

class Handler {
 public:
  Handler(int signal, void (*handler)(int)) : signal_(signal) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigaction(signal, &action, &before_);
  }
  ~Handler() { sigaction(signal_, &before_, nullptr); }

 private:
  int signal_;
  struct sigaction before_ {};
};

TEST(Child, EndsWithStatusAndOutput) {
  const auto result = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(result.end, End::exited);
  EXPECT_EQ(result.code, 3);
  EXPECT_FALSE(result.succeeded());
  EXPECT_EQ(result.output, "out\nerr\n");
  EXPECT_EQ(describe(result, kLong), "exit status 3: out\nerr");
  EXPECT_TRUE(shell("exit 0").succeeded());
  expect_no_children();
}

TEST(Child, SaysWhichSignalKilledIt) {
  const auto result = shell("kill -SEGV $$");
  EXPECT_EQ(result.end, End::killed);
  EXPECT_EQ(result.code, SIGSEGV);
}

TEST(Child, ThatDoesNotStartSaysWhy) {
  const auto result = kernels::run_child({"/nowhere/cc"}, -1, kLong);
  EXPECT_EQ(result.end, End::not_started);
  EXPECT_EQ(describe(result, kLong), "it does not start: No such file or directory");
}

TEST(Child, IsKilledAfterTheLimitWithAllItStarted) {
  const ReaperOfOrphans reaper;
  const auto result =
      shell("trap '' TERM INT; sleep 1000 & sleep 1000 & echo two; sleep 1000", kShort);
  EXPECT_EQ(result.end, End::timed_out);
  EXPECT_EQ(describe(result, kShort), "not done after 0.2 s: two");
  expect_no_children();
}

TEST(Child, TakesWithItWhatItLeftRunning) {
  const ReaperOfOrphans reaper;
  const auto result = shell("sleep 1000 & echo left");
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(result.output, "left\n");
  expect_no_children();
}

TEST(Child, ThatWritesWithoutEndIsKilledAfterTheLimit) {
  const auto result =
      shell("while :; do echo 0123456789012345678901234567890123456789; done", kShort);
  EXPECT_EQ(result.end, End::timed_out);
  EXPECT_EQ(result.output.size(), 65536U);
  EXPECT_LT(describe(result, kShort).size(), 700U);
}

TEST(Child, ThatClosesItsOutputIsStillWaitedFor) {
  EXPECT_EQ(shell("exec >&- 2>&-; sleep 0.05; exit 7").code, 7);
}

TEST(Child, HasAnEmptyStandardInput) { EXPECT_EQ(shell("cat; echo end").output, "end\n"); }

TEST(Child, RunsInTheDirectory) {
  const TemporaryFolder folder;
  const int directory = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_EQ(shell("pwd -P", kLong, directory).output,
            std::filesystem::canonical(folder.path()).string() + "\n");
  close(directory);
}

TEST(Child, HasDefaultSignalHandlersAndBlocksNone) {
  const Handler ignored(SIGTERM, SIG_IGN);
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto result = shell("kill -TERM $$; echo survived");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(result.end, End::killed);
  EXPECT_EQ(result.code, SIGTERM);
}

TEST(Child, InheritsNoOpenFile) {
#if !__GLIBC_PREREQ(2, 34)
  GTEST_SKIP() << "this system's posix_spawn() cannot close all files";
#endif
  const int file = open("/dev/null", O_RDONLY);
  const int high = fcntl(file, F_DUPFD, 50);
  EXPECT_EQ(shell("[ -e /proc/self/fd/" + std::to_string(high) + " ] || echo closed").output,
            "closed\n");
  close(file);
  close(high);
}

TEST(Child, SpeaksEnglishAndLoadsNothingOfTheHost) {
  const Variable language("LC_ALL", "de_DE.UTF-8"), preload("LD_PRELOAD", ""),
      dependencies("DEPENDENCIES_OUTPUT", "file"), own("ANTEGRAD_CHILD_TEST", "kept");
  EXPECT_EQ(
      shell("echo $LC_ALL ${LD_PRELOAD-none} ${DEPENDENCIES_OUTPUT-none} $ANTEGRAD_CHILD_TEST")
          .output,
      "C none none kept\n");
}

TEST(Child, ThatTheHostDoesNotWaitForIsReported) {
  const Handler ignored(SIGCHLD, SIG_IGN);
  const auto result = shell("echo done");
  EXPECT_EQ(result.end, End::status_taken);
  EXPECT_EQ(result.output, "done\n");
}

TEST(Child, MayBeTakenByAHandlerThatWaitsForAll) {
  const Handler greedy(SIGCHLD, [](int) {
    const int before = errno;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    errno = before;
  });
  for (int i = 0; i < 20; ++i) {
    const auto result = shell("echo done");
    EXPECT_TRUE(result.succeeded() || result.end == End::status_taken);
    EXPECT_EQ(result.output, "done\n");
  }
  expect_no_children();
}

TEST(Child, RunsOnManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int j = 0; j < 10; ++j) {
        const std::string number = std::to_string(i * 10 + j);
        EXPECT_EQ(shell("echo " + number + "; exit " + number).code, i * 10 + j);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  expect_no_children();
}

}  // namespace child_test
}  // namespace antegrad::testing
