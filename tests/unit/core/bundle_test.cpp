// Bundles of plans and kernels: what is written is read, and nothing that is damaged.

#include "cache/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <antegrad/error.h>

#include "kernel_files.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace bundle_test {

using kernels::Built;
using ::testing::HasSubstr;

Bundle example() {
  return {
      .kernels = {.compiler = {.command = {"/usr/bin/cc", "-pipe"}, .version = "cc \"12\" \xff"},
                  .made_for = "a CPU",
                  .libraries = {{"00aa", std::string("\0\x7f"
                                                     "ELF\nsum",
                                                     8)},
                                {"00bb", ""}},
                  .facts = {"proven 0123", "times 0123 4 5"}},
      .plans = {{"antegrad plan 1\ngraph 01\n", "{\n}"}, {"antegrad plan 1\n", ""}}};
}

std::string error_of(const std::string& bytes) {
  try {
    bundle_of_text(bytes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Bundle, IsReadAsItWasWritten) {
  Bundle expected = example();
  expected.kernels.compiler.version = "cc \"12\" \xef\xbf\xbd";  // as far as JSON holds it
  EXPECT_EQ(bundle_of_text(bundle_text(example())), expected);
  EXPECT_EQ(bundle_of_text(bundle_text(Bundle())), Bundle());
}

TEST(Bundle, EveryChangedAddedOrMissingByteIsFound) {
  const std::string text = bundle_text(example());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(error_of(changed), "") << i;
    EXPECT_NE(error_of(text.substr(0, i)), "") << i;
  }
  EXPECT_THAT(error_of(text + "x"), HasSubstr("its sum is another one"));
  EXPECT_THAT(error_of("antegrad bundle 2\n"), HasSubstr("begins in another way"));
}

TEST(Bundle, AFileOfOthersIsNotRead) {
  const TemporaryFolder folder;
  const std::string file = folder / "kernels.bundle";
  write_bundle(example(), file);
  EXPECT_EQ(read_bundle(file).plans, example().plans);
  ASSERT_EQ(::chmod(file.c_str(), 0664), 0);
  EXPECT_THROW(read_bundle(file), InputError);
  ASSERT_EQ(::chmod(file.c_str(), 0444), 0);
  EXPECT_NO_THROW(read_bundle(file));
  EXPECT_THROW(read_bundle(folder / "none"), InputError);
  EXPECT_THROW(read_bundle("/"), InputError);
}

TEST(Bundle, WhatCannotBeWrittenLeavesTheFileAsItWas) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_bundle(example(), folder / "none/kernels.bundle"), InputError);
  const std::string file = folder / "kernels.bundle";
  write_bundle(example(), file);
  ASSERT_EQ(::mkdir((file + "." + std::to_string(::getpid()) + ".part").c_str(), 0700), 0);
  EXPECT_THROW(write_bundle(Bundle(), file), InputError);
  EXPECT_EQ(read_bundle(file).plans, example().plans);
}

// As on a machine that has neither a compiler nor a folder to write to.
TEST(Bundle, NeedsNoCompilerAndNoFolder) {
  const auto compiler = system_compiler();
  if (compiler.command.empty()) GTEST_SKIP() << "no compiler";
  const TemporaryFolder folder;
  const auto source = source_of("bundled", "11");
  kernels::Settings settings;
  settings.folder = folder / "kernels";
  auto built = kernels::build({&source, 1}, compiler, settings);
  ASSERT_TRUE(built[0]) << built[0].failure().text;
  const kernels::Compiler none{.command = {folder / "none"}, .version = "none"};
  Bundle bundle;
  bundle.kernels.compiler = none;
  bundle.kernels.libraries = kernels::loaded_libraries();
  ASSERT_EQ(bundle.kernels.libraries.size(), 1U);

  settings.folder = "/proc/none";
  const auto failed = kernels::build({&source, 1}, none, settings);
  EXPECT_FALSE(failed[0]);
  kernels::use_compiled(bundle_of_text(bundle_text(bundle)).kernels);
  ASSERT_EQ(kernels::compiler_of_compiled(), none);
  built = kernels::build({&source, 1}, none, settings);
  ASSERT_TRUE(built[0]) << built[0].failure().text;
  EXPECT_EQ(built[0]->from, Built::From::bundle);
  EXPECT_EQ(value_of(built[0]->functions.at(0)), 11);
  // Another compiler's code is not that which was compared.
  EXPECT_FALSE(kernels::build({&source, 1}, {{"cc"}, "another"}, settings)[0]);
}

}  // namespace bundle_test
}  // namespace antegrad::testing
