#pragma once

/// \file
/// Runs generated code for AArch64 under an emulator, and compares all memory with the
/// interpreter's.

#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/compiler.h"
#include "lower/c_printer.h"
#include "support/kernels.h"

namespace antegrad::testing {

/// A call of a kernel on memory of `seed`.
struct EmulatedCall {
  size_t kernel = 0;
  KernelArguments arguments;
  uint64_t seed = 0;
};

/// A file of kernels as a program for AArch64, with call_kernels.c. Needs the tools of
/// missing_tool().
class EmulatedKernels {
 public:
  explicit EmulatedKernels(std::vector<lower::Kernel> kernels) : kernels_(std::move(kernels)) {
    std::string table;
    for (const lower::Kernel& kernel : kernels_) table += kernel.name + ", ";
    std::ofstream(folder_ / "kernels.c")
        << lower::c_source(kernels_, lower::c_target(kCapability))
        << fmt::format("void (*const kernels[])(char* const*, const i64*, i64, i64, i64) = {{{}}};",
                       table);
    auto flags = kernels::flags_of(kCapability, kernels::Numerics::exact);
    // Those of a library that is loaded into a process. Here it is a program.
    std::erase_if(flags, [](const std::string& flag) {
      return flag == "-shared" || flag == "-nostartfiles" || flag == "-nodefaultlibs";
    });
    error_ =
        run(fmt::format("{} {} -D_GNU_SOURCE -static -o {} {} {} -lm", kCompiler,
                        fmt::join(flags, " "), folder_ / "program", folder_ / "kernels.c", kMain));
  }

  /// What has to be installed; "" if all is there.
  static std::string missing_tool() {
    for (const char* tool : {kCompiler, kEmulator}) {
      const std::string asked = fmt::format("{} --version > /dev/null 2>&1", tool);
      if (std::system(asked.c_str()) != 0) return tool;  // NOLINT
    }
    return "";
  }

  /// What the compiler said against it.
  const std::string& error() const { return error_; }

  /// What is wrong with each call, or "".
  std::vector<std::string> differences(std::span<const EmulatedCall> calls,
                                       std::span<const lower::HostFunctions> functions) const {
    std::vector<KernelCall> expected, found;
    std::vector<std::string> wrong;
    std::ofstream asked(folder_ / "calls", std::ios::binary);
    for (const EmulatedCall& call : calls) {
      const lower::Kernel& kernel = kernels_[call.kernel];
      expected.emplace_back(kernel, call.arguments, call.seed);
      wrong.push_back(interpret_call(kernel, expected.back(), call.seed, functions[call.kernel]));
      found.emplace_back(kernel, call.arguments, call.seed);
      if (wrong.back().empty()) write(asked, call, found.back());
    }
    asked.close();
    const std::string failure = run(fmt::format("{} {} {} {}", kEmulator, folder_ / "program",
                                                folder_ / "calls", folder_ / "results"));
    if (!failure.empty()) return std::vector(calls.size(), failure);
    std::ifstream results(folder_ / "results", std::ios::binary);
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!wrong[i].empty()) continue;
      const lower::Kernel& kernel = kernels_[calls[i].kernel];
      wrong[i] = read(results, kernel, found[i]);
      if (wrong[i].empty()) wrong[i] = memory_difference(kernel, expected[i], found[i]);
    }
    return wrong;
  }

 private:
  static constexpr lower::Capability kCapability = lower::Capability::neon;
  static constexpr const char* kCompiler = "aarch64-linux-gnu-gcc";
  static constexpr const char* kEmulator = "qemu-aarch64-static";
  static constexpr const char* kMain = ANTEGRAD_TEST_DATA "/../emulated/call_kernels.c";

  /// Its output if it fails.
  std::string run(const std::string& command) const {
    const std::string log = folder_ / "log";
    if (std::system((command + " > " + log + " 2>&1").c_str()) == 0) return "";  // NOLINT
    std::ifstream said(log);
    return command + ": " + std::string(std::istreambuf_iterator<char>(said), {});
  }

  static void put(std::ostream& out, int64_t number) {
    out.write(reinterpret_cast<const char*>(&number), sizeof number);
  }
  static int64_t get(std::istream& in) {
    int64_t number = 0;
    in.read(reinterpret_cast<char*>(&number), sizeof number);
    return number;
  }

  static void write(std::ostream& out, const EmulatedCall& call, const KernelCall& made) {
    put(out, static_cast<int64_t>(call.kernel));
    put(out, static_cast<int64_t>(call.arguments.numbers.size()));
    for (const int64_t number : call.arguments.numbers) put(out, number);
    put(out, KernelCall::kThreads);
    made.split(call.seed, [&](int64_t begin, int64_t end, int64_t /*thread*/) {
      put(out, begin);
      put(out, end);
    });
    put(out, static_cast<int64_t>(made.memory().size()));
    for (const GuardedMemory& memory : made.memory()) {
      const auto pages = memory.open_parts();
      put(out, static_cast<int64_t>(pages.size()));
      for (const auto& [begin, end] : pages) put(out, begin);
      for (const auto& [begin, end] : pages) out.write(memory.base() + begin, end - begin);
    }
  }

  /// What the call left in memory.
  static std::string read(std::istream& in, const lower::Kernel& kernel, const KernelCall& made) {
    const int64_t touched = get(in), byte = get(in);
    for (const GuardedMemory& memory : made.memory()) {
      for (const auto& [begin, end] : memory.open_parts()) {
        in.read(memory.base() + begin, end - begin);
      }
    }
    if (!in) return "the program wrote too few results";
    if (touched < 0) return "";
    const auto buffer = static_cast<size_t>(touched);
    return buffer < kernel.buffers.size() ? fmt::format("generated code touches byte {} of {}",
                                                        byte, kernel.buffers[buffer].name)
                                          : "generated code touches no buffer";
  }

  TemporaryFolder folder_;
  std::vector<lower::Kernel> kernels_;
  std::string error_;
};

}  // namespace antegrad::testing
