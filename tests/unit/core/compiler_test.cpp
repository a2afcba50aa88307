// Which compiler serves, with which flags, and how a compilation fails.

#include "kernels/compiler.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "kernel_files.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace compiler_test {

using kernels::Capability;
using kernels::find_compiler;
using kernels::missing_features;
using kernels::Numerics;
using kernels::Reason;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(FindCompiler, TakesTheNamedOneOnly) {
  const TemporaryFolder folder;
  const Variable path("PATH", folder.path()), cc("CC", script(folder, "other", ""));
  const std::string named = script(folder, "named", "");
  const auto found = find_compiler(named, kCompilerLimit);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->command, ElementsAre(named));
  EXPECT_EQ(found->version, "fake 1");
  EXPECT_THAT(find_compiler("named", kCompilerLimit)->command, ElementsAre(named));

  const auto none = find_compiler("/nowhere/cc", kCompilerLimit);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.failure().reason, Reason::no_compiler);
  EXPECT_EQ(none.failure().text, "/nowhere/cc is not there");
}

TEST(FindCompiler, TakesCcWithItsArgumentsThenThoseOfThePath) {
  const TemporaryFolder folder;
  const Variable path("PATH", folder.path());
  const std::string gcc = script(folder, "gcc", "");
  script(folder, "clang", "");
  {
    const Variable cc("CC", script(folder, "mine", "") + "  -m64 -pipe");
    const auto found = find_compiler("", kCompilerLimit);
    ASSERT_TRUE(found);
    EXPECT_THAT(found->command, ElementsAre(folder / "mine", "-m64", "-pipe"));
  }
  const Variable cc("CC", {});
  EXPECT_THAT(find_compiler("", kCompilerLimit)->command, ElementsAre(gcc));
}

TEST(FindCompiler, PassesOverOneThatDoesNotWork) {
  const TemporaryFolder folder;
  const Variable path("PATH", folder.path());
  const Variable cc("CC", "missing");
  write_text(folder / "cc", "#!/bin/sh\necho broken >&2; exit 1\n");
  chmod((folder / "cc").c_str(), 0755);
  write_text(folder / "gcc", "no permission to run");
  const std::string clang = script(folder, "clang", "");
  EXPECT_THAT(find_compiler("", kCompilerLimit)->command, ElementsAre(clang));
}

TEST(FindCompiler, WithoutAnySaysWhatItTried) {
  const TemporaryFolder folder;
  const Variable path("PATH", ":relative:" + folder.path());
  const Variable cc("CC", {});
  write_text(folder / "gcc", "#!/bin/sh\necho broken >&2; exit 1\n");
  chmod((folder / "gcc").c_str(), 0755);
  const auto none = find_compiler("", kCompilerLimit);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.failure().reason, Reason::no_compiler);
  EXPECT_EQ(none.failure().text,
            "cc is not there; gcc --version: exit status 1: broken; clang is not there");
}

TEST(FindCompiler, DoesNotWaitForOneThatHangs) {
  const TemporaryFolder folder;
  write_text(folder / "cc", "#!/bin/sh\nsleep 1000\n");
  chmod((folder / "cc").c_str(), 0755);
  const auto none = find_compiler(folder / "cc", std::chrono::milliseconds(100));
  ASSERT_FALSE(none);
  EXPECT_THAT(none.failure().text, EndsWith("not done after 0.1 s"));
}

TEST(Flags, NameInstructionsAndNeverRelaxArithmetic) {
  for (const auto capability : {Capability::baseline, Capability::avx2, Capability::avx512}) {
    for (const auto numerics : {Numerics::exact, Numerics::close}) {
      const auto flags = flags_of(capability, numerics);
      EXPECT_THAT(flags,
                  AllOf(Not(Contains("-march=native")), Not(Contains("-ffast-math")),
                        Not(Contains("-Ofast")), Not(Contains("-funsafe-math-optimizations"))));
      EXPECT_THAT(flags, Contains(numerics == Numerics::exact ? "-ffp-contract=off"
                                                              : "-ffp-contract=fast"));
      // Native bf16 and fp16 arithmetic rounds otherwise than ATen.
      EXPECT_THAT(flags, AllOf(Not(Contains(HasSubstr("fp16"))), Not(Contains(HasSubstr("bf16")))));
    }
  }
  EXPECT_THAT(flags_of(Capability::avx512, Numerics::exact), Contains("-mavx512f"));
  EXPECT_THAT(flags_of(Capability::avx2, Numerics::exact),
              AllOf(Contains("-mfma"), Not(Contains("-mavx512f"))));
  EXPECT_THAT(flags_of(Capability::baseline, Numerics::exact), Not(Contains("-mavx2")));
}

TEST(Flags, ForTheBaselineRunOnEachCpuOfItsKind) {
#if defined(__aarch64__)
  const auto here = Capability::neon, elsewhere = Capability::baseline;
#else
  const auto here = Capability::baseline, elsewhere = Capability::neon;
#endif
  EXPECT_TRUE(missing_features(here).empty());
  EXPECT_FALSE(missing_features(elsewhere).empty());
}

TEST(Flags, ForNeonAreThoseOfEachCompilerForAArch64) {
  EXPECT_THAT(flags_of(Capability::neon, Numerics::exact), Not(Contains(StartsWith("-m"))));
}

TEST(IncludingLine, IsFoundHoweverItIsWritten) {
  using kernels::including_line;
  EXPECT_EQ(including_line("int x;\n#include <math.h>\n"), "#include <math.h>");
  EXPECT_TRUE(including_line("  #  include \"x\""));
  EXPECT_TRUE(including_line("#include_next <x>"));
  EXPECT_TRUE(including_line("#import <x>"));
  EXPECT_TRUE(including_line("#embed \"x\""));
  EXPECT_FALSE(including_line("#define include\n#\n// #include <x>\nint include;\n"));
}

class Compile : public ::testing::Test {
 protected:
  std::optional<kernels::Failure> run(const kernels::Compiler& compiler, const std::string& source,
                                      std::chrono::milliseconds limit = kCompilerLimit) {
    write_text(work_ / kernels::kSourceFile, source);
    const int directory = open(work_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto flags = flags_of(Capability::baseline, Numerics::exact);
    flags.insert(flags.end(), {"-o", kernels::kLibraryFile, kernels::kSourceFile});
    auto failure = compile(compiler, flags, directory, limit);
    close(directory);
    return failure;
  }
  std::optional<kernels::Failure> fake(const std::string& body) {
    return run(fake_compiler(programs_, body), "", std::chrono::milliseconds(2000));
  }
  TemporaryFolder work_, programs_;
};

TEST_F(Compile, MakesALibrary) {
  if (system_compiler().command.empty()) GTEST_SKIP() << "no compiler";
  EXPECT_FALSE(run(system_compiler(), "int x;"));
  EXPECT_EQ(read_text(work_ / kernels::kLibraryFile).substr(1, 3), "ELF");
}

TEST_F(Compile, ReportsTheCompilersFirstLines) {
  if (system_compiler().command.empty()) GTEST_SKIP() << "no compiler";
  const auto failure = run(system_compiler(), "int x = ;\n");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->reason, Reason::compiler_failed);
  EXPECT_THAT(failure->text, HasSubstr("kernels.c:1:9: error: "));
}

TEST_F(Compile, FailsWithACompilerThatFails) {
  const auto failure = fake("printf 'no\\001way\\n' >&2; exit 2");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->reason, Reason::compiler_failed);
  EXPECT_THAT(failure->text, EndsWith("/fake: exit status 2: no.way"));
}

TEST_F(Compile, FailsWithACompilerThatIsKilled) {
  const auto failure = fake("printf '\\177ELF' > kernels.so; kill -KILL $$");
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->text, EndsWith("killed by signal 9"));
}

TEST_F(Compile, FailsWithACompilerThatHangs) {
  const auto failure =
      run(fake_compiler(programs_, "sleep 1000"), "", std::chrono::milliseconds(100));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->reason, Reason::timed_out);
}

TEST_F(Compile, FailsWithACompilerThatMakesNothingOrGarbage) {
  for (const char* body : {"", ": > kernels.so", "echo garbage > kernels.so",
                           "ln -s /bin/sh kernels.so", "mkdir kernels.so"}) {
    const auto failure = fake(std::string("rm -rf kernels.so; ") + body);
    ASSERT_TRUE(failure) << body;
    EXPECT_EQ(failure->reason, Reason::compiler_failed);
    EXPECT_THAT(failure->text, EndsWith("it made no library"));
  }
}

TEST_F(Compile, FailsWithACompilerThatIsGone) {
  const auto failure = run({{"/nowhere/cc"}, "1"}, "");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->text, "/nowhere/cc: it does not start: No such file or directory");
}

TEST_F(Compile, KnowsAFullDisk) {
  const auto failure = fake("echo 'fatal error: /tmp/x.s: No space left on device' >&2; exit 1");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->reason, Reason::disk_full);
}

}  // namespace compiler_test
}  // namespace antegrad::testing
