// From C text to functions: compiled once, found again, never loaded if anything is wrong with it.

#include "kernels/build.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernel_files.h"
#include "kernels/stub.h"
#include "support/folder.h"
#include "support/long_tests.h"

namespace antegrad::testing {
namespace build_test {

namespace fs = std::filesystem;
using kernels::Built;
using kernels::Capability;
using kernels::Outcome;
using kernels::Reason;
using kernels::Source;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// How many images of kernels are mapped into this process.
int images() {
  const std::string maps = read_text("/proc/self/maps");
  int count = 0;
  // Each has one executable part.
  for (size_t at = 0; (at = maps.find("memfd:antegrad_kernels", at)) != std::string::npos; ++at) {
    const size_t line = maps.rfind('\n', at) + 1;
    count += maps.substr(line, at - line).find("r-xp") != std::string::npos;
  }
  return count;
}

class KernelBuild : public ::testing::Test {
 protected:
  KernelBuild() {
    settings_.folder = folder_ / "kernels";
    settings_.parallel = 2;
  }
  void SetUp() override {
    if (compiler_.command.empty()) GTEST_SKIP() << "no compiler";
  }
  Outcome<Built> build(const Source& source) { return build(source, compiler_); }
  Outcome<Built> build(const Source& source, const kernels::Compiler& compiler) {
    auto built = kernels::build({&source, 1}, compiler, settings_);
    EXPECT_EQ(built.size(), 1U);
    return std::move(built.front());
  }
  kernels::Failure failure_of(const Source& source) {
    const auto built = build(source);
    EXPECT_FALSE(built);
    return built ? kernels::Failure{} : built.failure();
  }
  /// The only entry of the folder.
  std::string entry() const {
    std::string path;
    for (const auto& file : fs::directory_iterator(settings_.folder)) {
      EXPECT_EQ(path, "");
      path = file.path().string();
    }
    return path;
  }
  /// One that notes each run and does what the system's does.
  kernels::Compiler counting(const std::string& before = "") {
    return fake_compiler(folder_, "echo run >> " + (folder_ / "runs") + "; " + before + "exec " +
                                      compiler_.command.front() + " \"$@\"");
  }
  int64_t runs() const {
    const std::string text = read_text(folder_ / "runs");
    return std::count(text.begin(), text.end(), '\n');
  }

  TemporaryFolder folder_;
  kernels::Settings settings_;
  kernels::Compiler compiler_ = system_compiler();
};

TEST_F(KernelBuild, CompilesOnceThenFindsTheFileThenTheLibrary) {
  const Source source = source_of("f", "41");
  const auto compiler = counting();
  {
    const auto first = build(source, compiler);
    ASSERT_TRUE(first) << first.failure().text;
    EXPECT_EQ(first->from, Built::From::compiler);
    EXPECT_EQ(first->damage, "");
    EXPECT_EQ(value_of(first->functions.at(0)), 41);
    const auto second = build(source, compiler);
    EXPECT_EQ(second->from, Built::From::process);
    EXPECT_EQ(second->library, first->library);
    EXPECT_EQ(second->functions, first->functions);
  }
  const auto third = build(source, compiler);
  EXPECT_EQ(third->from, Built::From::folder);
  EXPECT_EQ(value_of(third->functions.at(0)), 41);
  EXPECT_EQ(runs(), 1);
}

TEST_F(KernelBuild, KeepsALibraryLoadedAsLongAsItIsHeld) {
  const int before = images();
  auto built = build(source_of("f", "42"));
  std::shared_ptr<const kernels::Library> held = built->library;
  const auto function = built->functions.at(0);
  built = kernels::Failure{};
  EXPECT_EQ(images(), before + 1);
  EXPECT_EQ(value_of(function), 42);
  held.reset();
  EXPECT_EQ(images(), before);
}

TEST_F(KernelBuild, TellsSourcesCompilersAndMachinesApart) {
  std::vector<Outcome<Built>> all;
  const Source one = source_of("f", "1");
  all.push_back(build(one));
  all.push_back(build(source_of("f", "2")));
  Source close = one;
  close.numerics = kernels::Numerics::close;
  all.push_back(build(close));
  Source elsewhere = one;
  elsewhere.made_for = "another CPU";
  all.push_back(build(elsewhere));
  kernels::Compiler newer = compiler_;
  newer.version += ".1";
  all.push_back(build(one, newer));
  for (const auto& built : all) {
    ASSERT_TRUE(built) << built.failure().text;
    EXPECT_EQ(built->from, Built::From::compiler);
  }
  EXPECT_EQ(value_of(all[0]->functions[0]), 1);
  EXPECT_EQ(value_of(all[1]->functions[0]), 2) << "functions of one name in two libraries";
  EXPECT_EQ(std::distance(fs::directory_iterator(settings_.folder), {}), 5);
}

TEST_F(KernelBuild, HoldsManyFunctionsInOneFile) {
  Source all = source_of("f", "0");
  for (int i = 1; i < 20; ++i) {
    const Source more = source_of("f" + std::to_string(i), std::to_string(i));
    all.text += more.text;
    all.functions.push_back(more.functions.front());
  }
  const auto built = build(all);
  ASSERT_TRUE(built);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(value_of(built->functions.at(static_cast<size_t>(i))), i);
  EXPECT_EQ(value_of(built->library->function("f7")), 7);
  EXPECT_EQ(built->library->function("g"), nullptr);
}

TEST_F(KernelBuild, CompilesSeveralSourcesAndReportsEachForItself) {
  settings_.parallel = 3;
  std::vector<Source> sources;
  for (int i = 0; i < 5; ++i) sources.push_back(source_of("f", std::to_string(i)));
  sources[1].text = "no C";
  sources[3].text = "#include <math.h>\n";
  const auto built = kernels::build(sources, compiler_, settings_);
  ASSERT_EQ(built.size(), 5U);
  for (const size_t i : {0U, 2U, 4U}) {
    ASSERT_TRUE(built[i]) << built[i].failure().text;
    EXPECT_EQ(value_of(built[i]->functions[0]), static_cast<int64_t>(i));
  }
  EXPECT_EQ(built[1].failure().reason, Reason::compiler_failed);
  EXPECT_EQ(built[3].failure().reason, Reason::source_refused);
  EXPECT_EQ(built[3].failure().text, "it includes a file: #include <math.h>");
  EXPECT_TRUE(kernels::build({}, compiler_, settings_).empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(settings_.folder), {}), 3) << "entries alone";
}

TEST_F(KernelBuild, NamesWhatIsMissing) {
  Source source = source_of("f", "missing_symbol()");
  source.text = "long missing_symbol(void);\n" + source.text;
  EXPECT_EQ(failure_of(source).reason, Reason::not_loadable);
  EXPECT_EQ(failure_of(source).text, "undefined symbol: missing_symbol");

  Source other = source_of("f", "1");
  other.functions.emplace_back("g");
  EXPECT_EQ(failure_of(other).reason, Reason::not_loadable);
  EXPECT_EQ(failure_of(other).text, "no function g");
}

TEST_F(KernelBuild, RefusesCodeThatThisCpuCannotRun) {
  for (const auto capability : {Capability::avx2, Capability::avx512}) {
    Source source = source_of("f", "1");
    source.capability = capability;
    const auto missing = kernels::missing_features(capability);
    if (missing.empty()) {
      EXPECT_TRUE(build(source));
    } else {
      EXPECT_THAT(failure_of(source).text, HasSubstr("this CPU lacks " + missing.front()));
    }
  }
}

TEST_F(KernelBuild, UsesLibgccWhereInstructionsAreMissing) {
  EXPECT_EQ(value_of(build(source_of("f", "(long)((__int128)thread * 0 + 10) / 3"))->functions[0]),
            3);
  Source half = source_of("f", "({ volatile _Float16 h = 1.5; (long)(h + h); })");
  const auto built = build(half);
  if (!built) GTEST_SKIP() << "no _Float16: " << built.failure().text;
  EXPECT_EQ(value_of(built->functions[0]), 3);
}

// ---- symbols of libraries that were loaded for themselves -------------------------------------

class KernelSymbols : public KernelBuild {
 protected:
  void SetUp() override {
    KernelBuild::SetUp();
    write_text(folder_ / "host.c", "long host_value(void) { return 77; }\n");
    const std::string command = compiler_.command.front() + " -shared -fPIC -Wl,-soname," +
                                kSoname + " -o " + (folder_ / kSoname) + " " + (folder_ / "host.c");
    ASSERT_EQ(std::system(command.c_str()), 0);
    source_ = source_of("f", "host_value()");
    source_.text = "long host_value(void);\n" + source_.text;
  }
  static constexpr const char* kSoname = "libantegrad_test_host.so.1";
  Source source_;
};

TEST_F(KernelSymbols, AreFoundInALocalLibraryThatIsNeeded) {
  void* host = dlopen((folder_ / kSoname).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(host, nullptr) << dlerror();
  EXPECT_EQ(failure_of(source_).text, "undefined symbol: host_value");
  source_.needed = {"libm.so.6", kSoname};
  const auto built = build(source_);
  ASSERT_TRUE(built) << built.failure().text;
  EXPECT_EQ(value_of(built->functions[0]), 77);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "host_value"), nullptr) << "still visible to nobody else";
  dlclose(host);
  EXPECT_EQ(value_of(built->functions[0]), 77) << "the kernels hold it";
}

TEST_F(KernelSymbols, OfALibraryThatIsNotThereAreAnError) {
  source_.needed = {kSoname};
  const auto failure = failure_of(source_);
  EXPECT_EQ(failure.reason, Reason::not_loadable);
  EXPECT_EQ(failure.text, std::string(kSoname) + " is not loaded in this process");
}

// ---- compilers that fail ------------------------------------------------------------------------

TEST_F(KernelBuild, FailsWithItsCompilerAndLeavesNothing) {
  settings_.time_limit = std::chrono::milliseconds(300);
  const std::vector<std::pair<std::string, Reason>> compilers = {
      {"exit 1", Reason::compiler_failed},
      {"sleep 1000", Reason::timed_out},
      {"echo garbage > kernels.so", Reason::compiler_failed},
      {"printf '\\177ELF and garbage' > kernels.so", Reason::not_loadable},
      {"echo 'No space left on device'; exit 1", Reason::disk_full}};
  for (const auto& [body, reason] : compilers) {
    Source source = source_of("f", "1");
    source.made_for = body;
    const auto built = build(source, fake_compiler(folder_, body));
    ASSERT_FALSE(built) << body;
    EXPECT_EQ(built.failure().reason, reason) << body << ": " << built.failure().text;
    for (const auto& file : fs::directory_iterator(settings_.folder)) {
      EXPECT_THAT(file.path().string(), EndsWith(".so")) << body;
    }
  }
}

TEST_F(KernelBuild, FailsInAFolderOpenToOthers) {
  fs::create_directory(settings_.folder);
  fs::permissions(settings_.folder, fs::perms::all);
  EXPECT_EQ(failure_of(source_of("f", "1")).reason, Reason::folder_refused);
}

TEST_F(KernelBuild, UsesAFolderOfTheUsersCache) {
  const Variable caches("XDG_CACHE_HOME", folder_ / "caches");
  settings_.folder.clear();
  ASSERT_TRUE(build(source_of("f", "1")));
  EXPECT_EQ(mode_of(folder_ / "caches/antegrad/kernels"), 0700U);
}

// ---- entries that were changed ------------------------------------------------------------------

TEST_F(KernelBuild, MakesAnEntryThatWasChangedAgain) {
  const Source source = source_of("f", "43");
  ASSERT_TRUE(build(source));
  const std::string whole = read_text(entry());
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  for (const std::string& changed : {flipped, whole.substr(0, whole.size() / 2), std::string()}) {
    write_text(entry(), changed);
    const auto again = build(source);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->from, Built::From::compiler);
    EXPECT_NE(again->damage, "");
    EXPECT_EQ(value_of(again->functions[0]), 43);
    EXPECT_EQ(read_text(entry()), whole) << "compiling again gives the same bytes";
  }
  fs::rename(entry(), folder_ / "aside");
  EXPECT_EQ(build(source)->damage, "") << "one that is not there is no damage";
  const std::string path = entry();
  fs::remove(path);
  fs::create_symlink(folder_ / "aside", path);
  const auto again = build(source);
  EXPECT_EQ(again->from, Built::From::compiler);
  EXPECT_THAT(again->damage, HasSubstr("symbolic links"));
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST_F(KernelBuild, RunsOnWhateverHappensToTheFile) {
  const auto compiled = build(source_of("f", "44"));
  write_text(entry(), "");
  EXPECT_EQ(value_of(compiled->functions[0]), 44);
  const Source source = source_of("g", "45");
  fs::remove(entry());
  ASSERT_TRUE(build(source));
  const auto found = build(source);
  ASSERT_EQ(found->from, Built::From::folder);
  const std::string bytes(read_text(entry()).size(), '\xcc');
  write_text(entry(), bytes);
  EXPECT_EQ(value_of(found->functions[0]), 45);
}

TEST_F(KernelBuild, KeepsTheFolderWithinItsBound) {
  ASSERT_TRUE(build(source_of("f", "1")));
  settings_.folder_bytes = 3 * static_cast<int64_t>(fs::file_size(entry())) + 500;
  for (int i = 2; i < 8; ++i) ASSERT_TRUE(build(source_of("f", std::to_string(i))));
  EXPECT_EQ(std::distance(fs::directory_iterator(settings_.folder), {}), 3);
}

// ---- many at once -------------------------------------------------------------------------------

TEST_F(KernelBuild, CompilesOnceForManyThreads) {
  const auto compiler = counting("sleep 0.1; ");
  std::vector<std::thread> threads;
  std::vector<Outcome<Built>> results(8, kernels::Failure{});
  for (auto& result : results) {
    threads.emplace_back([&] { result = build(source_of("f", "46"), compiler); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->library, results[0]->library);
    EXPECT_EQ(value_of(result->functions[0]), 46);
  }
  EXPECT_EQ(runs(), 1);
}

TEST_F(KernelBuild, IsRightInManyProcessesWhileEntriesAreDamaged) {
  const bool more = long_tests();
  const int processes = more ? 16 : 4, sources = 3, rounds = more ? 100 : 4;
  settings_.parallel = 1;
  fs::create_directory(settings_.folder);
  fs::permissions(settings_.folder, fs::perms::owner_all);
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      bool right = true;
      for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < sources; ++i) {
          const auto built = build(source_of("f", std::to_string(100 + i)));
          right = right && built && value_of(built->functions[0]) == 100 + i;
          if (!right) dprintf(2, "%s\n", built ? "wrong value" : built.failure().text.c_str());
        }
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  std::mt19937 random(1);
  for (size_t ended = 0; ended < children.size();) {
    for (const auto& file : fs::directory_iterator(settings_.folder)) {
      std::error_code gone;
      const auto bytes = fs::file_size(file.path(), gone);
      if (gone || file.path().extension() != ".so" || bytes == 0) continue;
      switch (random() % 3) {
        case 0: fs::resize_file(file.path(), random() % bytes, gone); break;
        case 1: fs::remove(file.path(), gone); break;
        default: {
          std::fstream out(file.path(), std::ios::in | std::ios::out | std::ios::binary);
          out.seekp(static_cast<std::streamoff>(random() % bytes));
          out.put(static_cast<char>(random()));
        }
      }
    }
    int status = 0;
    if (const pid_t child = waitpid(-1, &status, WNOHANG); child > 0) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      ++ended;
    }
    usleep(2000);
  }
}

TEST_F(KernelBuild, UsesAFolderThatAKilledProcessWasWritingTo) {
  const Source source = source_of("f", "47");
  const auto hangs = fake_compiler(folder_, "printf '\\177ELF' > kernels.so; echo $$ > " +
                                                (folder_ / "started") + "; exec sleep 1000");
  const pid_t writer = fork();
  if (writer == 0) {
    build(source, hangs);
    _exit(0);
  }
  std::string compiler;
  while (!compiler.ends_with('\n')) compiler = read_text(folder_ / "started");
  kill(writer, SIGKILL);
  EXPECT_EQ(waitpid(writer, nullptr, 0), writer);
  EXPECT_EQ(kill(std::stoi(compiler), SIGKILL), 0)
      << "a killed process leaves its compiler running";
  const auto built = build(source);
  ASSERT_TRUE(built) << built.failure().text;
  EXPECT_EQ(built->damage, "");
  EXPECT_EQ(value_of(built->functions[0]), 47);
}

}  // namespace build_test
}  // namespace antegrad::testing
