// Code for devices: compiled once, found again, never used if anything is wrong with it.

#include "kernels/device_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kernel_files.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace device_code_test {

namespace fs = std::filesystem;
using kernels::CodeFrom;
using kernels::DeviceBuilt;
using kernels::DeviceSource;
using kernels::Failure;
using kernels::Outcome;
using kernels::Reason;
using ::testing::HasSubstr;

class DeviceCodeBuild : public ::testing::Test {
 protected:
  DeviceCodeBuild() {
    settings_.folder = folder_ / "kernels";
    settings_.parallel = 2;
  }

  // `text`: with the name of the test, since a process holds code as long as somebody does.
  static DeviceSource source(const std::string& text) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return {.text = std::string(test->name()) + " " + text,
            .compiler = "compiler 1",
            .arguments = {"--architecture=sm_1"},
            .made_for = "libtorch 1"};
  }
  Outcome<DeviceBuilt> build(const DeviceSource& source) {
    auto built = kernels::build_for_devices({&source, 1}, compile_, settings_);
    EXPECT_EQ(built.size(), 1U);
    return std::move(built.front());
  }
  // The only entry of the folder.
  std::string entry() const {
    std::string path;
    for (const auto& file : fs::directory_iterator(settings_.folder)) {
      EXPECT_EQ(path, "");
      path = file.path().string();
    }
    return path;
  }
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(settings_.folder), {});
  }

  TemporaryFolder folder_;
  kernels::Settings settings_;
  std::atomic<int> runs_ = 0;
  kernels::DeviceCompiler compile_ = [this](const DeviceSource& source) -> Outcome<std::string> {
    ++runs_;
    if (source.text.ends_with("wrong")) return Failure{Reason::compiler_failed, "it is wrong"};
    return "code of " + source.text + std::string("\0\x7f", 2);
  };
};

TEST_F(DeviceCodeBuild, CompilesOnceThenFindsTheFileThenTheCode) {
  std::string bytes;
  {
    const auto first = build(source("a"));
    ASSERT_TRUE(first) << first.failure().text;
    EXPECT_EQ(first->from, CodeFrom::compiler);
    EXPECT_EQ(first->damage, "");
    const auto second = build(source("a"));
    EXPECT_EQ(second->from, CodeFrom::process);
    EXPECT_EQ(second->code, first->code);
    bytes = first->code->bytes();
    EXPECT_THAT(bytes, HasSubstr("code of"));
  }
  const auto third = build(source("a"));
  EXPECT_EQ(third->from, CodeFrom::folder);
  EXPECT_EQ(third->code->bytes(), bytes);
  EXPECT_EQ(third->code->view(), bytes);
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(mode_of(entry()), 0600U);
}

TEST_F(DeviceCodeBuild, TellsAllApartThatTheCodeIsMadeFrom) {
  std::vector<DeviceSource> sources(5, source("a"));
  sources[1] = source("b");
  sources[2].compiler = "compiler 2";
  sources[3].arguments = {"--architecture=sm_2"};
  sources[4].made_for = "libtorch 2";
  for (const auto& built : kernels::build_for_devices(sources, compile_, settings_)) {
    ASSERT_TRUE(built);
    EXPECT_EQ(built->from, CodeFrom::compiler);
  }
  EXPECT_EQ(runs_, 5);
  EXPECT_EQ(entries(), 5);
}

TEST_F(DeviceCodeBuild, ReportsEachSourceForItself) {
  const std::vector<DeviceSource> sources{source("a"), source("wrong"), source("c")};
  const auto built = kernels::build_for_devices(sources, compile_, settings_);
  EXPECT_TRUE(built.at(0));
  ASSERT_FALSE(built.at(1));
  EXPECT_EQ(built[1].failure().text, "it is wrong");
  EXPECT_TRUE(built.at(2));
  EXPECT_EQ(entries(), 2) << "entries alone";
  EXPECT_TRUE(kernels::build_for_devices({}, compile_, settings_).empty());
}

TEST_F(DeviceCodeBuild, MakesAnEntryThatWasChangedAgain) {
  ASSERT_TRUE(build(source("a")));
  const std::string whole = read_text(entry());
  std::string flipped = whole;
  flipped[3] ^= 1;
  for (const std::string& changed : {flipped, whole.substr(0, whole.size() / 2), std::string()}) {
    write_text(entry(), changed);
    const auto again = build(source("a"));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->from, CodeFrom::compiler);
    EXPECT_NE(again->damage, "");
    EXPECT_EQ(read_text(entry()), whole);
  }
  const std::string path = entry();
  fs::permissions(path, fs::perms::all);  // anybody could have written it
  EXPECT_THAT(build(source("a"))->damage, HasSubstr("mode"));
  fs::rename(path, folder_ / "aside");
  fs::create_symlink(folder_ / "aside", path);
  EXPECT_EQ(build(source("a"))->from, CodeFrom::compiler);
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST_F(DeviceCodeBuild, NeedsNoFolder) {
  fs::create_directory(settings_.folder);
  fs::permissions(settings_.folder, fs::perms::all);
  const auto built = build(source("a"));
  ASSERT_TRUE(built);
  EXPECT_EQ(built->from, CodeFrom::compiler);
  EXPECT_THAT(built->damage, HasSubstr("nobody else who can write"));
  EXPECT_EQ(entries(), 0);
  settings_.folder = "/proc/none/kernels";
  EXPECT_TRUE(build(source("b")));
}

TEST_F(DeviceCodeBuild, KeepsTheFolderWithinItsBound) {
  ASSERT_TRUE(build(source("0")));
  settings_.folder_bytes = 3 * static_cast<int64_t>(fs::file_size(entry()));
  for (int i = 1; i < 8; ++i) ASSERT_TRUE(build(source(std::to_string(i))));
  EXPECT_EQ(entries(), 3);
}

TEST_F(DeviceCodeBuild, TakesTheCodeOfABundle) {
  kernels::CompiledKernels bundle;
  bundle.compiler = {.command = {"/usr/bin/cc"}, .version = "any"};
  {
    const auto made = build(source("a"));
    ASSERT_TRUE(made);
    const kernels::Libraries only{made->code};
    bundle.libraries = kernels::loaded_libraries(&only);
    ASSERT_EQ(bundle.libraries.size(), 1U);
    EXPECT_EQ(bundle.libraries.begin()->second, made->code->bytes());
  }
  EXPECT_EQ(kernels::loaded_libraries().count(bundle.libraries.begin()->first), 0U);
  kernels::use_compiled(bundle, /*keeps=*/true);
  settings_.folder = folder_ / "other";
  auto elsewhere = source("a");
  elsewhere.made_for = "libtorch 2";
  EXPECT_EQ(build(elsewhere)->from, CodeFrom::bundle);
  EXPECT_EQ(entries(), 1) << "as if it had been compiled";
  EXPECT_EQ(runs_, 1);
  elsewhere.compiler = "compiler 2";
  EXPECT_EQ(build(elsewhere)->from, CodeFrom::compiler);
}

TEST_F(DeviceCodeBuild, CompilesOnceForManyThreads) {
  const auto compile = compile_;
  compile_ = [&](const DeviceSource& source) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return compile(source);
  };
  std::vector<std::thread> threads;
  std::vector<Outcome<DeviceBuilt>> results(8, Failure{});
  for (auto& result : results) threads.emplace_back([&] { result = build(source("a")); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->code, results[0]->code);
  }
  EXPECT_EQ(runs_, 1);
}

}  // namespace device_code_test
}  // namespace antegrad::testing
