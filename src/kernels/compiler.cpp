#include "kernels/compiler.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "files/file.h"
#include "kernels/child.h"

namespace antegrad::kernels {
namespace {

using std::chrono::milliseconds;

struct Feature {
  const char* name;
  Capability since;
  bool present;
  bool always = false;  // for compilers, which need no flag "-mNAME" for it
};

#if defined(__aarch64__)
constexpr bool kIsAArch64 = true;
#else
[[maybe_unused]] constexpr bool kIsAArch64 = false;
#endif

#if defined(__x86_64__)
// Clang's __builtin_cpu_supports() does not know this feature.
bool converts_half() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

// Those for which ATen's kernels of a capability are compiled, f16c included. Further ones of the
// CPU stay unused: AVX-512's own bf16 and fp16 arithmetic rounds otherwise than ATen does.
std::vector<Feature> features() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // __builtin_cpu_supports() also asks whether the system saves the registers.
  return {{"avx2", Capability::avx2, __builtin_cpu_supports("avx2") != 0},
          {"fma", Capability::avx2, __builtin_cpu_supports("fma") != 0},
          {"f16c", Capability::avx2, converts_half()},
          {"avx512f", Capability::avx512, __builtin_cpu_supports("avx512f") != 0},
          {"avx512bw", Capability::avx512, __builtin_cpu_supports("avx512bw") != 0},
          {"avx512dq", Capability::avx512, __builtin_cpu_supports("avx512dq") != 0},
          {"avx512vl", Capability::avx512, __builtin_cpu_supports("avx512vl") != 0},
          {"asimd", Capability::neon, false, true}};
#else
  return {{"sse2", Capability::baseline, false, true},
          {"avx2", Capability::avx2, false},
          {"avx512f", Capability::avx512, false},
          {"asimd", Capability::neon, kIsAArch64, true}};
#endif
}

bool is_program(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

/// An absolute path; empty if there is no such program.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    std::error_code failed;
    const std::string path = std::filesystem::absolute(name, failed).string();
    return !failed && is_program(path) ? path : "";
  }
  const char* folders = std::getenv("PATH");
  std::istringstream in(folders == nullptr ? "/usr/bin:/bin" : folders);
  for (std::string folder; std::getline(in, folder, ':');) {
    // A relative folder of PATH would find whatever lies in the working directory.
    if (folder.empty() || folder[0] != '/') continue;
    if (std::string path = folder + "/" + name; is_program(path)) return path;
  }
  return "";
}

Outcome<Compiler> try_compiler(std::vector<std::string> command, milliseconds limit) {
  const std::string name = command.front();
  command.front() = find_program(name);
  if (command.front().empty()) return Failure{Reason::no_compiler, name + " is not there"};
  auto asking = command;
  asking.emplace_back("--version");
  const ChildResult answer = run_child(asking, -1, limit);
  // With the exit status taken, the answer itself must do.
  const bool taken = answer.end == ChildResult::End::status_taken;
  const std::string line = answer.output.substr(0, answer.output.find('\n'));
  if ((!answer.succeeded() && !taken) || line.empty()) {
    return Failure{Reason::no_compiler,
                   fmt::format("{} --version: {}", name, describe(answer, limit))};
  }
  return Compiler{std::move(command), line};
}

/// A compiler that was cut off leaves no complete file: linkers write the head last or rename.
bool is_complete_library(int directory) {
  const File file(::openat(directory, kLibraryFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::string head;
  return file && read_up_to(file, 4, head) == 0 && head == "\177ELF";
}

}  // namespace

Outcome<Compiler> find_compiler(const std::string& named, milliseconds limit) {
  if (!named.empty()) return try_compiler({named}, limit);
  std::vector<std::vector<std::string>> candidates;
  if (const char* chosen = std::getenv("CC")) {
    std::istringstream in(chosen);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    if (!words.empty()) candidates.push_back(std::move(words));
  }
  for (const char* name : {"cc", "gcc", "clang"}) candidates.push_back({name});
  std::vector<std::string> reasons;
  for (auto& candidate : candidates) {
    auto found = try_compiler(std::move(candidate), limit);
    if (found) return found;
    reasons.push_back(found.failure().text);
  }
  return Failure{Reason::no_compiler, fmt::format("{}", fmt::join(reasons, "; "))};
}

std::vector<std::string> flags_of(Capability capability, Numerics numerics) {
  std::vector<std::string> flags = {
      "-std=gnu11", "-O2", "-fPIC", "-shared",
      // GCC's notes on vectors as arguments are no warnings, and fill the reason of a failure.
      "-w", "-Wno-psabi",
      // C leaves them undefined, ATen's kernels rely on them: signed overflow, memory as two types.
      "-fwrapv", "-fno-strict-aliasing",
      // Neither changes a result. The first lets sqrt be an instruction.
      "-fno-math-errno", "-fno-trapping-math",
      numerics == Numerics::exact ? "-ffp-contract=off" : "-ffp-contract=fast",
      // A call of the C library stays one: a folded one has other bits.
      "-fno-builtin",
      // Start files and default libraries are not needed and cost 9 ms of the 21 of an empty file.
      "-nostartfiles", "-nodefaultlibs", "-fno-stack-protector", "-fno-plt"};
  for (const Feature& feature : features()) {
    const bool needed = lower::includes(capability, feature.since);
    if (needed && !feature.always) flags.push_back(std::string("-m") + feature.name);
  }
  if (capability == Capability::avx512) flags.emplace_back("-mprefer-vector-width=512");
  return flags;
}

std::vector<std::string> missing_features(Capability capability) {
  std::vector<std::string> missing;
  for (const Feature& feature : features()) {
    const bool needed = lower::includes(capability, feature.since);
    if (needed && !feature.present) missing.emplace_back(feature.name);
  }
  return missing;
}

std::optional<Failure> compile(const Compiler& compiler, const std::vector<std::string>& arguments,
                               int directory, milliseconds limit) {
  auto command = compiler.command;
  command.insert(command.end(), arguments.begin(), arguments.end());
  const ChildResult result = run_child(command, directory, limit);
  const bool made = is_complete_library(directory);
  if (made && (result.succeeded() || result.end == ChildResult::End::status_taken)) return {};
  Reason reason = Reason::compiler_failed;
  if (result.end == ChildResult::End::timed_out) reason = Reason::timed_out;
  // Messages are in English: run_child() sees to it.
  if (result.output.find("No space left on device") != std::string::npos ||
      result.output.find("Disk quota exceeded") != std::string::npos) {
    reason = Reason::disk_full;
  }
  const std::string text = result.succeeded() ? "it made no library" : describe(result, limit);
  return Failure{reason, compiler.command.front() + ": " + text};
}

std::optional<std::string> including_line(const std::string& source) {
  std::istringstream in(source);
  for (std::string line; std::getline(in, line);) {
    const size_t hash = line.find_first_not_of(" \t\v\f");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos) continue;
    for (const std::string_view directive : {"include", "import", "embed"}) {
      if (line.compare(word, directive.size(), directive) == 0) return line;
    }
  }
  return {};
}

}  // namespace antegrad::kernels
