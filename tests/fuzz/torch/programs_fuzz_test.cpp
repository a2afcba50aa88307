// Random programs, compiled against eager.
//
//   ANTEGRAD_FUZZ_SEED=n     the first seed (each program has the next one)
//   ANTEGRAD_FUZZ_COUNT=n    how many programs; without it 300 (40 with many sizes), with
//                            ANTEGRAD_TEST_LONG=1 10,000
//   ANTEGRAD_FUZZ_LOWERED=1  generated kernels in all programs, not in an eighth
//   ANTEGRAD_FUZZ_VERBOSE=1  prints each seed and program before it runs; shrinks refusals too
//
// One program again: ANTEGRAD_FUZZ_SEED=<its seed> ANTEGRAD_FUZZ_COUNT=1. A crash prints the seed.

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>

#include "check.h"
#include "generate.h"
#include "leaks.h"
#include "support/bits.h"
#include "support/long_tests.h"

namespace antegrad::fuzz {
namespace programs_fuzz_test {

constexpr uint64_t kFirstSeed = 20260701;
constexpr uint64_t kPrograms = 300;
constexpr uint64_t kLongPrograms = 10'000;
constexpr uint64_t kSizedPrograms = 40;
constexpr uint64_t kBackwardPrograms = 100;
constexpr uint64_t kProgress = 500;
/// The largest share of programs that may be refused. Refused programs are not compared, so they
/// count for no family either.
constexpr double kMostRefused = 0.10;
/// The largest share of programs whose gradients are equal only within a tolerance: a backward from
/// an input as well as from a result adds in another order.
constexpr double kMostApproximate = 0.02;
/// The largest share of programs with a second backward that eager refuses needlessly.
constexpr double kMostLenient = 0.02;
constexpr uint64_t kProgramsPerCoarse = 5000;
/// The number of failures of one kind that are printed in full; the others are listed by seed.
constexpr size_t kShownOfASort = 3;
/// The number of failures that are shrunk.
constexpr uint64_t kMostShrunk = 400;

// The least number of programs per thousand that must have been compared and contain this family.
int least_of(Family family) {
  switch (family) {
    case Family::complex: return 20;
    case Family::in_place_view:
    case Family::in_place_metadata: return 30;
    case Family::cumulative:
    case Family::sort:
    case Family::host:
    case Family::data:
    case Family::in_place_closure: return 50;
    case Family::unary:
    case Family::binary:
    case Family::view:
    case Family::in_place: return 200;
    default: return 80;
  }
}

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoull(value, nullptr, 10);
}

// While this object lives, a crash prints the program that ran. The handler has its own stack, so
// that it also works after a stack overflow.
class CrashNote {
 public:
  CrashNote() {
    stack_t stack{};
    stack.ss_sp = stack_.data();
    stack.ss_size = stack_.size();
    sigaltstack(&stack, nullptr);
    struct sigaction action {};
    action.sa_handler = say;
    action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    for (const int signal : kSignals) sigaction(signal, &action, nullptr);
  }
  ~CrashNote() {
    for (const int signal : kSignals) ::signal(signal, SIG_DFL);
    stack_t stack{};
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
  }
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

  void at(uint64_t seed) {
    std::snprintf(text_, sizeof(text_), "\ncrashed in the program of seed %llu\n",
                  static_cast<unsigned long long>(seed));
  }

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  static void say(int signal) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text_, std::strlen(text_));
    raise(signal);
  }

  static inline char text_[80] = "";
  std::vector<char> stack_ = std::vector<char>(1 << 16);
};

// The results of a run over many programs.
struct Tally {
  uint64_t same = 0, refused = 0, lenient = 0, coarse = 0;
  std::vector<uint64_t> approximate;    // seeds
  uint64_t sizes = 0;                   // different ones of the arguments, of compared programs
  std::map<Family, uint64_t> families;  // families of the compared programs
  std::map<std::string, std::vector<uint64_t>> reasons;   // of refusals, with seeds
  std::map<std::string, std::vector<uint64_t>> failures;  // by kind

  uint64_t programs() const { return same + refused + failed(); }
  uint64_t failed() const {
    uint64_t count = 0;
    for (const auto& [_, seeds] : failures) count += seeds.size();
    return count;
  }
};

void show(const Program& program, const Verdict& verdict, const Program& small,
          const Compile& compile) {
  std::cerr << "seed " << program.seed << ": " << to_string(verdict.kind) << ": " << verdict.detail
            << "\nshrunk:\n"
            << to_text(small) << "// " << check(small, compile).detail << "\n"
            << std::endl;
}

// Errors are grouped by their text without numbers, other failures by the operations that show
// them.
std::string sort_of(const Verdict& verdict, const Program& small) {
  std::string sort = to_string(verdict.kind);
  if (verdict.kind == Verdict::Kind::error || verdict.kind == Verdict::Kind::internal_error) {
    sort += ": " + verdict.detail.substr(0, 120);
    std::erase_if(sort, [](char c) { return c >= '0' && c <= '9'; });
    return sort;
  }
  std::set<std::string> operations;
  for (const auto& s : small.body) operations.insert(s.operation->text);
  for (const auto& operation : operations) sort += " | " + operation;
  return sort;
}

// Suppresses warnings: programs often use deprecated functions.
class NoWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

using Generate = Program (*)(uint64_t seed);

Tally run_programs(Generate make, uint64_t count, at::Device device, const Compile& compile) {
  const auto first = number_from("ANTEGRAD_FUZZ_SEED", kFirstSeed);
  const bool verbose = number_from("ANTEGRAD_FUZZ_VERBOSE", 0) != 0;
  Tally tally;
  CrashNote note;
  NoWarnings no_warnings;
  const c10::WarningUtils::WarningHandlerGuard quiet(&no_warnings);
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    note.at(seed);
    auto program = make(seed);
    program.device = device;
    if (verbose) std::cerr << "seed " << seed << "\n" << to_text(program) << std::flush;
    const auto verdict = check(program, compile);
    if (verbose)
      std::cerr << "// " << to_string(verdict.kind) << " " << verdict.detail << std::endl;
    if (verdict.kind == Verdict::Kind::same) {
      ++tally.same;
      if (verdict.approximate) tally.approximate.push_back(seed);
      tally.lenient += verdict.lenient;
      tally.coarse += verdict.coarse;
      for (const auto family : families_of(program)) ++tally.families[family];
      std::set<std::map<int64_t, int64_t>> sizes;
      for (const auto& call : program.calls) sizes.insert(call.sizes);
      tally.sizes += sizes.size();
    } else if (verdict.kind == Verdict::Kind::refused) {
      ++tally.refused;
      auto& seeds = tally.reasons[verdict.detail];
      seeds.push_back(seed);
      if (verbose && seeds.size() <= kShownOfASort) {
        show(program, verdict, shrink(program, compile), compile);
      }
    } else {
      // Limits the time of a run if the library is broken.
      const auto small = tally.failed() < kMostShrunk ? shrink(program, compile) : program;
      auto& seeds = tally.failures[tally.failed() < kMostShrunk ? sort_of(verdict, small)
                                                                : "more than are shrunk"];
      seeds.push_back(seed);
      if (seeds.size() <= kShownOfASort) show(program, verdict, small, compile);
    }
    if ((seed - first + 1) % kProgress == 0 || seed + 1 == first + count) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      std::cerr << tally.programs() << " programs: " << tally.same << " the same, " << tally.refused
                << " refused, " << tally.failed() << " differ; "
                << static_cast<double>(tally.programs()) / took.count() << " programs/s"
                << std::endl;
    }
  }
  return tally;
}

std::string list_of(const std::vector<uint64_t>& seeds) {
  std::string text;
  for (size_t i = 0; i < seeds.size() && i < 10; ++i) text += " " + std::to_string(seeds[i]);
  return seeds.size() > 10 ? text + " ..." : text;
}

uint64_t count_of(uint64_t otherwise) {
  return number_from("ANTEGRAD_FUZZ_COUNT", testing::long_tests() ? kLongPrograms : otherwise);
}

void expect_no_failure(const Tally& tally) {
  for (const auto& [sort, seeds] : tally.failures) {
    ADD_FAILURE() << seeds.size() << " programs differ in " << sort << ", seeds" << list_of(seeds);
  }
  for (const auto& [reason, seeds] : tally.reasons) {
    std::cerr << "refused " << seeds.size() << ": " << reason << " (seeds" << list_of(seeds)
              << ")\n";
  }
  std::cerr << tally.approximate.size()
            << " with gradients that are the same only within a tolerance, " << tally.lenient
            << " with a second backward that eager refuses, " << tally.coarse
            << " with one that is refused and ran in eager, through less\n";
}

void expect_as_in_eager(at::Device device) {
  const auto count = count_of(kPrograms);
  const auto tally = run_programs(generate, count, device, compiled);
  expect_no_failure(tally);
  if (count < kPrograms) return;
  EXPECT_LE(tally.refused, kMostRefused * static_cast<double>(count));
  EXPECT_LE(tally.approximate.size(), kMostApproximate * static_cast<double>(count));
  EXPECT_LE(tally.lenient, kMostLenient * static_cast<double>(count));
  EXPECT_LE(tally.coarse, 1 + count / kProgramsPerCoarse);
  for (size_t f = 0; f < static_cast<size_t>(Family::count); ++f) {
    const auto family = static_cast<Family>(f);
    const auto it = tally.families.find(family);
    const auto programs = it == tally.families.end() ? 0 : it->second;
    std::cerr << to_string(family) << ": " << programs << "\n";
    EXPECT_GE(programs * 1000, static_cast<uint64_t>(least_of(family)) * count)
        << to_string(family);
  }
}

TEST(ProgramsFuzz, BehaveAsInEager) { expect_as_in_eager(at::kCPU); }

TEST(ProgramsFuzz, BehaveAsInEagerWithManySizes) {
  const auto count = count_of(kSizedPrograms);
  const auto tally = run_programs(generate_sized, count, at::kCPU, compiled);
  expect_no_failure(tally);
  std::cerr << tally.sizes << " sizes of " << tally.same << " programs\n";
  if (count < kSizedPrograms) return;
  EXPECT_LE(tally.refused, kMostRefused * static_cast<double>(count));
  EXPECT_GE(tally.sizes, 3 * tally.same);
}

// Half of them with hooks.
Program generate_hooked(uint64_t seed) {
  auto program = generate(seed);
  program.hooked = seed % 2 == 0;
  return program;
}

TEST(ProgramsFuzz, HaveEagersGradientsFromCompiledBackward) {
  const auto count = count_of(kBackwardPrograms);
  const auto tally = run_programs(generate_hooked, count, at::kCPU, with_compiled_backward);
  expect_no_failure(tally);
  EXPECT_EQ(tally.refused, 0U);
  EXPECT_TRUE(tally.approximate.empty()) << list_of(tally.approximate);
  // The others add gradients of leaves.
  const auto [all, compiled_nodes] = backward_nodes();
  std::cerr << compiled_nodes << " of " << all << " nodes compiled\n";
  EXPECT_GE(compiled_nodes, all / 3);
}

TEST(ProgramsFuzz, BehaveAsInEagerWithCompiledBackward) {
  const auto tally = run_programs(generate, count_of(kBackwardPrograms), at::kCPU,
                                  compiled_with_compiled_backward);
  expect_no_failure(tally);
  std::cerr << "regions in " << backward_regions() << " programs\n";
  EXPECT_GE(backward_regions(), static_cast<int64_t>(tally.same / 6));
}

// Formulas of prod() and cumprod() are others for stand-ins (docs/accuracy.md).
Program generate_without_products(uint64_t seed) {
  for (uint64_t next = seed;; next += uint64_t{1} << 40) {
    auto program = generate(next);
    if (to_text(program).find("prod(") != std::string::npos) continue;
    program.seed = seed;
    return program;
  }
}

TEST(ProgramsFuzz, HaveEagersGradientsOfGradients) {
  const auto tally = run_programs(generate_without_products, count_of(kBackwardPrograms), at::kCPU,
                                  compiled_for_derivatives);
  expect_no_failure(tally);
  EXPECT_GE(tally.same, 3 * tally.programs() / 4);
}

TEST(ProgramsFuzz, BehaveAsInEagerOnCuda) {
  const auto devices = testing::devices();
  if (devices.size() < 2) GTEST_SKIP() << "no CUDA device";
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  expect_as_in_eager(devices[1]);
  at::globalContext().setDeterministicAlgorithms(false, false);
}

// ---- Tests of the fuzzer: their subjects run in eager.

class ProgramsFuzzSelfTest : public ::testing::Test {
  NotOurLeaks in_eager_;
};

TEST_F(ProgramsFuzzSelfTest, ASeedGivesTheSameProgramAndDeterministicResults) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto program = generate(seed);
    EXPECT_EQ(to_text(program), to_text(generate(seed)));
    const auto eager = [](const Program&, const Callable& callable) {
      return Subject{callable, [] { return 0; }};
    };
    const auto verdict = check(program, eager);
    EXPECT_EQ(verdict.kind, Verdict::Kind::same)
        << "seed " << seed << ": " << verdict.detail << "\n"
        << to_text(program);
  }
}

// ---- Deliberately wrong subjects: each must be caught and shrunk.

Compile wrong(std::function<List(List, const List& arguments)> spoil) {
  return [spoil](const Program&, const Callable& callable) {
    return Subject{[=](const List& arguments, const std::vector<int64_t>& flags) {
                     return spoil(callable(arguments, flags), arguments);
                   },
                   [] { return 0; }};
  };
}

// Searches for a program that shows the fault, and shrinks it.
void expect_caught(const Compile& compile, Verdict::Kind kind) {
  for (uint64_t seed = 1; seed < 200; ++seed) {
    const auto program = generate(seed);
    if (program.body.size() < 6 || check(program, compile).kind != kind) continue;
    const auto small = shrink(program, compile);
    EXPECT_EQ(check(small, compile).kind, kind);
    EXPECT_LE(small.body.size(), 3U) << to_text(small);
    EXPECT_LE(small.calls.size(), 1U) << to_text(small);
    return;
  }
  ADD_FAILURE() << "no program showed a difference in " << to_string(kind);
}

TEST_F(ProgramsFuzzSelfTest, WrongValuesAreCaughtAndShrunk) {
  expect_caught(wrong([](List results, const List&) {
                  for (auto& r : results) {
                    if (r.is_floating_point() && r.numel() > 2) r = r * 1.001;
                  }
                  return results;
                }),
                Verdict::Kind::results);
}

// The faulty operation must remain after shrinking.
TEST_F(ProgramsFuzzSelfTest, AWrongOperationIsCaughtAndShrunk) {
  const Compile compile = [](const Program& program, const Callable& callable) {
    const bool has = std::any_of(program.body.begin(), program.body.end(), [](const Statement& s) {
      return std::string(s.operation->text) == "at::sin(c.t[0])";
    });
    return Subject{[=](const List& arguments, const std::vector<int64_t>& flags) {
                     auto results = callable(arguments, flags);
                     if (has && !results.empty() && floating(results[0]))
                       results[0] = results[0] + 1;
                     return results;
                   },
                   [] { return 0; }};
  };
  expect_caught(compile, Verdict::Kind::results);
}

TEST_F(ProgramsFuzzSelfTest, LostAliasingIsCaughtAndShrunk) {
  expect_caught(wrong([](List results, const List&) {
                  for (auto& r : results) r = at::alias(r);
                  return results;
                }),
                Verdict::Kind::metadata);
}

TEST_F(ProgramsFuzzSelfTest, ALostWriteIsCaughtAndShrunk) {
  const Compile compile = [](const Program&, const Callable& callable) {
    return Subject{[=](const List& arguments, const std::vector<int64_t>& flags) {
                     List copies;
                     for (const auto& a : arguments) copies.push_back(a.clone());
                     return callable(copies, flags);
                   },
                   [] { return 0; }};
  };
  expect_caught(compile, Verdict::Kind::inputs);
}

TEST_F(ProgramsFuzzSelfTest, ARefusalIsNoAgreementAndItsTracesAreFound) {
  const auto refuse = [](bool trace) {
    return wrong([trace](List, const List& arguments) -> List {
      if (trace) arguments[0].detach().zero_();
      throw CaptureError("", {"something", "something else", ""});
    });
  };
  Program program;
  program.arguments.push_back({});
  program.arguments[0].sizes = {3};
  program.results = {{Var::Kind::argument, 0}};
  program.calls.resize(1);
  EXPECT_EQ(check(program, refuse(false)).kind, Verdict::Kind::refused);
  EXPECT_EQ(check(program, refuse(true)).kind, Verdict::Kind::trace);
}

}  // namespace programs_fuzz_test
}  // namespace antegrad::fuzz
