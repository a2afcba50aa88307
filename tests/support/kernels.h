#pragma once

/// \file
/// Runs kernels of the loop IR twice, by the interpreter and as C that the system's compiler
/// compiled, and compares all memory.

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/compiler.h"
#include "lower/c_printer.h"
#include "lower/interpreter.h"
#include "lower/scalar.h"
#include "lower/text.h"
#include "lower/verify.h"
#include "support/folder.h"
#include "support/guarded_memory.h"

namespace antegrad::testing {

/// Capabilities whose code this CPU runs.
inline std::vector<lower::Capability> capabilities() {
  using enum lower::Capability;
  std::vector<lower::Capability> all = {baseline, avx2, avx512};
  std::erase_if(all, [](lower::Capability capability) {
    return !kernels::missing_features(capability).empty();
  });
  return all;
}

/// Whether there is a C compiler.
inline bool has_compiler() {
  static const bool has = std::system("cc --version > /dev/null 2>&1") == 0;  // NOLINT
  return has;
}

using KernelFunction = void (*)(char* const*, const int64_t*, int64_t, int64_t, int64_t);

/// A shared library of one file, compiled and loaded.
class LoadedSource {
 public:
  /// `compiler`: the command with its flags. `libraries`: what follows the file.
  LoadedSource(const std::string& file, const std::string& text, const std::string& compiler,
               const std::string& libraries = "") {
    const std::string source = folder_ / file, library = folder_ / "library.so";
    std::ofstream(source) << text;
    const std::string command =
        fmt::format("{} -o {} {} {} 2> {}", compiler, library, source, libraries, folder_ / "log");
    if (std::system(command.c_str()) != 0) {  // NOLINT
      std::ifstream log(folder_ / "log");
      error_ = std::string(std::istreambuf_iterator<char>(log), {});
      return;
    }
    handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) error_ = dlerror();
  }
  ~LoadedSource() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  LoadedSource(const LoadedSource&) = delete;
  LoadedSource& operator=(const LoadedSource&) = delete;

  const std::string& error() const { return error_; }
  KernelFunction function(const std::string& name) const {
    return reinterpret_cast<KernelFunction>(dlsym(handle_, name.c_str()));
  }

 private:
  TemporaryFolder folder_;
  void* handle_ = nullptr;
  std::string error_;
};

/// A loaded library of kernels, of one C file.
class CompiledKernels : public LoadedSource {
 public:
  CompiledKernels(std::span<const lower::Kernel> kernels, lower::Capability capability)
      : LoadedSource("kernels.c", lower::c_source(kernels, lower::c_target(capability)),
                     "cc " + flags_for(capability), "-lm -lgcc") {}

 private:
  static std::string flags_for(lower::Capability capability) {
    auto flags = kernels::flags_of(capability, kernels::Numerics::exact);
    // Where the tests are instrumented, generated code is, too.
    if (kSanitized) flags.insert(flags.end(), {"-g", "-fsanitize=address,undefined"});
    return fmt::format("{}", fmt::join(flags, " "));
  }
};

/// Random bits of an element; every eighth is special: zeros, infinities, NaNs, denormals.
inline uint64_t random_element(DType type, std::mt19937_64& random) {
  const uint64_t bits = random();
  const bool special = bits % 8 == 0;
  const double number = std::normal_distribution<double>(0, 3)(random);
  switch (type) {
    case DType::f32:
      if (!special) return lower::to_bits(static_cast<float>(number));
      return std::vector<uint64_t>{0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                   1, 0x807fffff, 0x7f7fffff, bits >> 32}[random() % 9];
    case DType::f64:
      if (!special) return lower::to_bits(number);
      return std::vector<uint64_t>{0,
                                   uint64_t{1} << 63,
                                   uint64_t{0x7ff} << 52,
                                   uint64_t{0xfff} << 52,
                                   uint64_t{0x7ff8} << 48,
                                   1,
                                   bits}[random() % 7];
    case DType::bf16:
      if (!special) return lower::to_bits(static_cast<float>(number)) >> 16;
      return bits >> 48;
    case DType::f16: {
      const uint64_t single = lower::to_bits(static_cast<float>(number));
      return special ? bits >> 48
                     : lower::evaluate({lower::Op::cast, type, {}, 0, -1}, DType::f32, &single);
    }
    case DType::boolean: return bits >> 63;
    default: {
      const int64_t wide =
          special ? static_cast<int64_t>(bits) : static_cast<int64_t>(bits % 41) - 20;
      return static_cast<uint64_t>(wide) & (~uint64_t{0} >> (64 - 8 * byte_size(type)));
    }
  }
}

/// A call of a kernel: its numbers, and the part of its parallel space that is done.
struct KernelArguments {
  KernelArguments(std::vector<int64_t> list) : numbers(std::move(list)) {}  // NOLINT
  KernelArguments(std::vector<int64_t> list, int64_t from, int64_t to)
      : numbers(std::move(list)), begin(from), end(to) {}
  std::vector<int64_t> numbers;
  int64_t begin = 0;
  int64_t end = -1;  ///< -1: all of it
};

/// Arguments of a call with made-up memory: random and special values. Memory that the call has no
/// business with cannot be touched.
class KernelCall {
 public:
  static constexpr int64_t kThreads = 3;
  static constexpr int64_t kGathered = 5;

  KernelCall(const lower::Kernel& kernel, KernelArguments arguments, uint64_t seed)
      : kernel_(kernel), arguments_(std::move(arguments)), random_(seed) {
    if (arguments_.end < 0) arguments_.end = lower::parallel_size(kernel, numbers());
    gathers_ = std::ranges::any_of(
        kernel.code, [](const lower::Instruction& code) { return code.op == lower::Op::gather; });
    for (const lower::Buffer& buffer : kernel.buffers) add(buffer);
  }

  const int64_t* numbers() const { return arguments_.numbers.data(); }
  std::vector<char*> addresses() const {
    std::vector<char*> list;
    for (const GuardedMemory& memory : memory_) list.push_back(memory.base());
    return list;
  }
  const std::vector<GuardedMemory>& memory() const { return memory_; }

  /// Calls run(begin, end, thread) for parts of the call.
  template <class Run>
  void split(uint64_t seed, const Run& run) const {
    std::mt19937_64 random(seed);
    int64_t begin = arguments_.begin;
    for (int64_t thread = 0; thread < kThreads; ++thread) {
      const int64_t left = arguments_.end - begin;
      const int64_t end = thread + 1 == kThreads
                              ? arguments_.end
                              : begin + static_cast<int64_t>(random() % (left + 1));
      run(begin, end, thread);
      begin = end;
    }
  }

 private:
  static constexpr int64_t kClose = 1 << 16;  // elements

  int64_t value(lower::Extent extent) const { return lower::value_of(extent, numbers()); }

  /// Calls visit(offset) for each element of a buffer that the call may touch.
  template <class Visit>
  void for_each_element(const lower::Buffer& buffer, const Visit& visit) const {
    const size_t dimensions = kernel_.sizes.size();
    const bool flat = kernel_.space == lower::Space::elements;
    const size_t outer = dimensions - (flat ? 0 : static_cast<size_t>(kernel_.inner));
    // What does not depend on an inner index may be read for a row without elements, too.
    std::vector<int64_t> sizes, strides;
    for (size_t d = 0; d < dimensions; ++d) {
      sizes.push_back(std::max<int64_t>(1, value(kernel_.sizes[d])));
      strides.push_back(value(buffer.strides[d]));
    }
    const int64_t segments = flat || kernel_.inner == 1 ? 1 : sizes[outer];
    const int64_t inner = flat ? 1 : sizes.back();
    const int64_t segment_stride = segments == 1 ? 0 : strides[outer];
    const int64_t stride = flat ? 0 : strides.back();
    const int64_t threads = value(buffer.thread) == 0 ? 1 : kThreads;
    const int64_t gathered = value(buffer.gather) == 0 ? 1 : kGathered;
    const auto element = [&](int64_t offset) {
      for (int64_t thread = 0; thread < threads; ++thread) {
        for (int64_t index = 0; index < gathered; ++index) {
          visit(offset + thread * value(buffer.thread) + index * value(buffer.gather));
        }
      }
    };
    for (int64_t at = arguments_.begin; at < arguments_.end; ++at) {
      int64_t row = value(buffer.offset);
      int64_t rest = at;
      for (size_t d = outer; d-- > 0;) {
        row += rest % sizes[d] * strides[d];
        rest /= sizes[d];
      }
      for (int64_t s = 0; s < segments; ++s) {
        for (int64_t i = 0; i < inner; ++i) element(row + s * segment_stride + i * stride);
      }
    }
  }

  void add(const lower::Buffer& buffer) {
    const int64_t size = byte_size(buffer.type);
    int64_t low = 0;
    int64_t high = -1;
    for_each_element(buffer, [&](int64_t offset) {
      if (high < low) low = high = offset;
      low = std::min(low, offset);
      high = std::max(high, offset);
    });
    GuardedMemory& memory =
        memory_.emplace_back(low * size, (high + 1) * size, /*at_end=*/random_() % 2 == 0);
    const bool index = gathers_ && buffer.type == DType::i64;
    const auto fill = [&](int64_t offset) {
      lower::write_element(buffer.type, memory.base() + offset * size,
                           index ? random_() % kGathered : random_element(buffer.type, random_));
    };
    if (high - low < kClose) {
      memory.open(low * size, (high + 1) * size);
      for (int64_t offset = low; offset <= high; ++offset) fill(offset);
      return;
    }
    for_each_element(buffer, [&](int64_t offset) {
      memory.open(offset * size, (offset + 1) * size);
      fill(offset);
    });
  }

  const lower::Kernel& kernel_;
  KernelArguments arguments_;
  std::mt19937_64 random_;
  bool gathers_ = false;
  std::vector<GuardedMemory> memory_;
};

/// Whether the bits are those of a NaN of `type`.
inline bool is_nan(DType type, uint64_t bits) {
  switch (type) {
    case DType::f32: return std::isnan(lower::from_bits<float>(bits));
    case DType::f64: return std::isnan(lower::from_bits<double>(bits));
    case DType::bf16: return (bits & 0x7fff) > 0x7f80;
    case DType::f16: return (bits & 0x7fff) > 0x7c00;
    default: return false;
  }
}

/// The first element that differs, as text; "" without one. Any NaN equals any other.
inline std::string memory_difference(const lower::Kernel& kernel, const KernelCall& expected,
                                     const KernelCall& found) {
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const DType type = kernel.buffers[b].type;
    const int64_t size = byte_size(type);
    const char* other = found.memory()[b].base();
    for (const auto& [begin, end] : expected.memory()[b].open_parts()) {
      const int64_t first = (begin % size + size) % size;
      for (int64_t at = begin + (first == 0 ? 0 : size - first); at + size <= end; at += size) {
        const uint64_t x = lower::read_element(type, expected.memory()[b].base() + at);
        const uint64_t y = lower::read_element(type, other + at);
        if (x == y || (is_nan(type, x) && is_nan(type, y))) continue;
        return fmt::format("element {} of {}: interpreter {:x}, generated code {:x}", at / size,
                           kernel.buffers[b].name, x, y);
      }
    }
  }
  return "";
}

/// Where in a call's memory an address lies.
inline std::string place_of(const lower::Kernel& kernel, const KernelCall& call, const char* at) {
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const GuardedMemory& memory = call.memory()[b];
    if (!memory.covers(at)) continue;
    return fmt::format("byte {} of {}", at - memory.base(), kernel.buffers[b].name);
  }
  return "no buffer";
}

/// Interprets a call, in the parts of `seed`. "" if it touches no memory of others.
inline std::string interpret_call(const lower::Kernel& kernel, const KernelCall& call,
                                  uint64_t seed, const lower::HostFunctions& functions) {
  const std::vector<char*> addresses = call.addresses();
  const auto fault = fault_of([&] {
    call.split(seed, [&](int64_t begin, int64_t end, int64_t thread) {
      lower::interpret(kernel, addresses.data(), call.numbers(), begin, end, thread, functions);
    });
  });
  return fault ? "the interpreter touches " + place_of(kernel, call, *fault) : "";
}

/// Runs both on memory of `seed`. "" if they agree and touch no memory of others.
inline std::string run_difference(const lower::Kernel& kernel, KernelFunction function,
                                  const KernelArguments& arguments, uint64_t seed,
                                  const lower::HostFunctions& functions = {}) {
  const KernelCall expected(kernel, arguments, seed);
  const KernelCall found(kernel, arguments, seed);
  const std::vector<char*> found_at = found.addresses();
  std::string wrong = interpret_call(kernel, expected, seed, functions);
  if (!wrong.empty()) return wrong;
  const auto fault = fault_of([&] {
    found.split(seed, [&](int64_t begin, int64_t end, int64_t thread) {
      function(found_at.data(), found.numbers(), begin, end, thread);
    });
  });
  if (fault) return "generated code touches " + place_of(kernel, found, *fault);
  return memory_difference(kernel, expected, found);
}

/// Expects that generated code of each capability, of one file, has the interpreter's bits for all
/// `cases`, which are lists of numbers of each kernel.
inline void expect_compiled_agrees(std::span<const lower::Kernel> kernels,
                                   const std::vector<std::vector<int64_t>>& cases,
                                   const lower::HostFunctions& functions = {}) {
  for (const lower::Kernel& kernel : kernels) {
    lower::verify(kernel);
    EXPECT_EQ(lower::to_text(lower::parse_kernel(lower::to_text(kernel))), lower::to_text(kernel));
  }
  if (!has_compiler()) GTEST_SKIP() << "no C compiler: there is no cc";
  for (const lower::Capability capability : capabilities()) {
    const lower::CTarget& target = lower::c_target(capability);
    const CompiledKernels compiled(kernels, capability);
    ASSERT_EQ(compiled.error(), "") << lower::c_source(kernels, target);
    for (const lower::Kernel& kernel : kernels) {
      for (size_t i = 0; i < cases.size(); ++i) {
        ASSERT_EQ(run_difference(kernel, compiled.function(kernel.name), cases[i], i, functions),
                  "")
            << "case " << i << ", " << target.name << "\n"
            << lower::to_text(kernel) << lower::c_source({&kernel, 1}, target);
      }
    }
  }
}

inline void expect_compiled_agrees(const lower::Kernel& kernel,
                                   const std::vector<std::vector<int64_t>>& cases,
                                   const lower::HostFunctions& functions = {}) {
  expect_compiled_agrees(std::span(&kernel, 1), cases, functions);
}

}  // namespace antegrad::testing
