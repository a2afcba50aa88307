// Plans and kernels from a bundle, in processes that find neither a compiler nor a folder for
// compiled files.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "compile/lowering.h"
#include "exact_options.h"
#include "kernels/build.h"
#include "processes.h"
#include "support/bits.h"
#include "support/folder.h"
#include "support/kernels.h"

namespace antegrad::testing {
namespace process_bundle_test {

// The bundle that a process of this program reads or writes.
const char* bundle() { return std::getenv("ANTEGRAD_TEST_BUNDLE"); }

int run(const std::string& test, const std::string& environment, const std::string& log) {
  return run_test("ProcessBundle." + test, environment, log);
}

// With a plan from there, and all kernels that can be made, of which there are some; then `at_end`,
// while they are held.
void train(
    const std::string& plan, const std::function<void()>& at_end = [] {}) {
  auto step = compile(loss_of_rows, exact().with_memory_share(0.5));
  EXPECT_TRUE(same_bits(gradients_of_rows([&](const List& xs) { return step(xs); }),
                        gradients_of_rows(loss_of_rows)));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.programs.at(0).lowering_failure, "");
  EXPECT_GE(report.programs.at(0).generated_kernels.size(), 2U);
  EXPECT_EQ(report.programs.at(0).plan_cache + " " + report.programs.at(0).plan_cache_reason, plan);
  at_end();
}

TEST(ProcessBundle, SavesInAProcessOfItsOwn) {
  if (bundle() == nullptr) GTEST_SKIP() << "runs in a process of SavesAndLoads";
  EXPECT_THROW(save_bundle(bundle()), InputError);  // there are none yet
  train("miss ", [] { save_bundle(bundle()); });
}

TEST(ProcessBundle, LoadsInAProcessOfItsOwn) {
  if (bundle() == nullptr) GTEST_SKIP() << "runs in a process of SavesAndLoads";
  load_bundle(bundle());
  train("hit from a bundle");
}

TEST(ProcessBundle, SaysWhatTheBundleWasMadeForInAProcessOfItsOwn) {
  if (bundle() == nullptr) GTEST_SKIP() << "runs in a process of SavesAndLoads";
  load_bundle(bundle());
  const List other{leaf({34, 65}), leaf({65})};
  const auto options = exact().with_memory_share(0.5);
  auto step = compile(loss_of_rows, options);
  step(other).backward();
  const auto reason = step.report().programs.at(0).plan_cache_reason;
  EXPECT_NE(reason.find("\"arguments f32[33, 65], f32[65]\" instead of \"arguments f32[34, 65], "
                        "f32[65]\""),
            std::string::npos)
      << reason;
  auto strict = compile(loss_of_rows, Options(options).with_strict_autograd_cache(true));
  EXPECT_THROW(strict(other), CacheError);
}

TEST(ProcessBundle, HasNoKernelsInAProcessOfItsOwn) {
  if (bundle() == nullptr) GTEST_SKIP() << "runs in a process of SavesAndLoads";
  auto step = compile(loss_of_rows, exact());
  EXPECT_TRUE(same_bits(gradients_of_rows([&](const List& xs) { return step(xs); }),
                        gradients_of_rows(loss_of_rows)));
  EXPECT_TRUE(step.report().programs.at(0).generated_kernels.empty());
  const auto& program = step.report().programs.at(0);
  EXPECT_EQ(program.plan_cache, "miss");
  EXPECT_NE(program.plan_cache_reason, "") << "there is no folder";
  save_bundle(std::string(bundle()) + ".plan");  // which is all that there is
}

// A process that compiles the program again makes these, too, to find that they are slow.
TEST(ProcessBundle, HasTheKernelsThatTurnedOutSlow) {
  if (!has_compiler()) GTEST_SKIP() << "no compiler";
  const TemporaryFolder folder;
  compiler::set_kernel_times(kernels::RunTimes{.kernel = 1'000'000, .library = 1});
  const auto before = kernels::loaded_libraries().size();
  {
    auto step =
        compile(loss_of_rows, exact().with_keep_slow_kernels(false).with_cache_dir(folder.path()));
    gradients_of_rows([&](const List& xs) { return step(xs); });
    EXPECT_TRUE(step.report().programs.at(0).generated_kernels.empty());
    EXPECT_GT(kernels::loaded_libraries().size(), before);
  }
  EXPECT_EQ(kernels::loaded_libraries().size(), before);
  compiler::set_kernel_times(std::nullopt);
}

TEST(ProcessBundle, SavesAndLoads) {
  if (!has_compiler()) GTEST_SKIP() << "no compiler";
  const TemporaryFolder folder;
  const std::string file = folder / "kernels.bundle", log = folder / "log";
  const std::string named = "ANTEGRAD_TEST_BUNDLE=" + file;
  // Nothing can be made in /proc.
  const std::string bare = named + " PATH=/none CC= HOME=/proc/none XDG_CACHE_HOME=/proc/none";
  EXPECT_EQ(run("SavesInAProcessOfItsOwn", named + " XDG_CACHE_HOME=" + (folder / "caches"), log),
            0)
      << text_of(log);
  EXPECT_EQ(run("LoadsInAProcessOfItsOwn", bare, log), 0) << text_of(log);
  EXPECT_EQ(run("SaysWhatTheBundleWasMadeForInAProcessOfItsOwn", bare, log), 0) << text_of(log);
  EXPECT_EQ(run("HasNoKernelsInAProcessOfItsOwn", bare, log), 0) << text_of(log);
  // Another user, who can write nowhere here and owns nothing.
  const std::string other = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  if (std::system((other + "test -x '" + self + "' > /dev/null 2>&1").c_str()) == 0) {
    EXPECT_EQ(run("LoadsInAProcessOfItsOwn", other + "env " + bare, log), 0) << text_of(log);
    std::filesystem::permissions(file,
                                 std::filesystem::perms(0666));  // anybody could have written it
    EXPECT_NE(run("LoadsInAProcessOfItsOwn", other + "env " + bare, log), 0);
    EXPECT_NE(text_of(log).find("mode 666"), std::string::npos) << text_of(log);
    std::filesystem::permissions(file, std::filesystem::perms(0644));
  }
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_THROW(load_bundle(file), InputError);
}

}  // namespace process_bundle_test
}  // namespace antegrad::testing
