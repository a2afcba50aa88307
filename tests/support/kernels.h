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

/// A loaded library of kernels, of one C file.
class CompiledKernels {
 public:
  CompiledKernels(std::span<const lower::Kernel> kernels, lower::Capability capability) {
    const lower::CTarget& target = lower::c_target(capability);
    const std::string source = folder_ / "kernels.c";
    std::ofstream(source) << lower::c_source(kernels, target);
    const std::string library = folder_ / "kernels.so";
    const auto flags = kernels::flags_of(capability, kernels::Numerics::exact);
    const std::string command = fmt::format("cc {} -o {} {} -lm -lgcc 2> {}", fmt::join(flags, " "),
                                            library, source, folder_ / "log");
    if (std::system(command.c_str()) != 0) {  // NOLINT
      std::ifstream log(folder_ / "log");
      error_ = std::string(std::istreambuf_iterator<char>(log), {});
      return;
    }
    handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) error_ = dlerror();
  }
  ~CompiledKernels() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  CompiledKernels(const CompiledKernels&) = delete;
  CompiledKernels& operator=(const CompiledKernels&) = delete;

  const std::string& error() const { return error_; }
  KernelFunction function(const std::string& name) const {
    return reinterpret_cast<KernelFunction>(dlsym(handle_, name.c_str()));
  }

 private:
  TemporaryFolder folder_;
  void* handle_ = nullptr;
  std::string error_;
};

/// Arguments of a call with made-up memory: random and special values, with a margin around each
/// buffer that nobody may write.
class KernelCall {
 public:
  static constexpr int64_t kMargin = 64;  // elements
  static constexpr int64_t kThreads = 3;
  static constexpr int64_t kGathered = 5;

  KernelCall(const lower::Kernel& kernel, std::vector<int64_t> numbers, uint64_t seed)
      : numbers_(std::move(numbers)), random_(seed) {
    const bool gathers = std::ranges::any_of(
        kernel.code, [](const lower::Instruction& code) { return code.op == lower::Op::gather; });
    for (const lower::Buffer& buffer : kernel.buffers) {
      int64_t low = value(buffer.offset);
      int64_t high = low;
      const auto extend = [&](int64_t last, int64_t stride) {
        (stride < 0 ? low : high) += std::max<int64_t>(last, 0) * stride;
      };
      for (size_t d = 0; d < kernel.sizes.size(); ++d) {
        extend(value(kernel.sizes[d]) - 1, value(buffer.strides[d]));
      }
      extend(kThreads - 1, value(buffer.thread));
      extend(kGathered - 1, value(buffer.gather));
      const int64_t size = byte_size(buffer.type);
      // Aligned as an element only.
      std::vector<char> memory(static_cast<size_t>((high - low + 1 + 2 * kMargin) * size + 64));
      const auto start = static_cast<int64_t>(random_() % 7) * size;
      for (int64_t at = start; at + size <= static_cast<int64_t>(memory.size()); at += size) {
        const bool index = gathers && buffer.type == DType::i64;
        lower::write_element(buffer.type, memory.data() + at,
                             index ? random_() % kGathered : element(buffer.type));
      }
      starts_.push_back(start + (kMargin - low) * size);
      memory_.push_back(std::move(memory));
    }
  }

  const int64_t* numbers() const { return numbers_.data(); }
  std::vector<char*> addresses() {
    std::vector<char*> list;
    for (size_t i = 0; i < memory_.size(); ++i) list.push_back(memory_[i].data() + starts_[i]);
    return list;
  }
  std::vector<std::vector<char>>& memory() { return memory_; }
  template <class T>
  T* data(size_t buffer) {
    return reinterpret_cast<T*>(addresses()[buffer]);
  }

  /// Calls run(begin, end, thread) for parts of [0, size).
  template <class Run>
  void split(int64_t size, uint64_t seed, const Run& run) {
    std::mt19937_64 random(seed);
    int64_t begin = 0;
    for (int64_t thread = 0; thread < kThreads; ++thread) {
      const int64_t left = size - begin;
      const int64_t end =
          thread + 1 == kThreads ? size : begin + static_cast<int64_t>(random() % (left + 1));
      run(begin, end, thread);
      begin = end;
    }
  }

 private:
  int64_t value(lower::Extent extent) const { return lower::value_of(extent, numbers_.data()); }

  uint64_t element(DType type) {
    const uint64_t bits = random_();
    const bool special = bits % 8 == 0;
    const double number = std::normal_distribution<double>(0, 3)(random_);
    switch (type) {
      case DType::f32:
        if (!special) return lower::to_bits(static_cast<float>(number));
        return std::vector<uint64_t>{0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                     1, 0x807fffff, 0x7f7fffff, bits >> 32}[random_() % 9];
      case DType::f64:
        if (!special) return lower::to_bits(number);
        return std::vector<uint64_t>{0,
                                     uint64_t{1} << 63,
                                     uint64_t{0x7ff} << 52,
                                     uint64_t{0xfff} << 52,
                                     uint64_t{0x7ff8} << 48,
                                     1,
                                     bits}[random_() % 7];
      case DType::bf16:
        if (!special) return lower::to_bits(static_cast<float>(number)) >> 16;
        return bits >> 48;
      case DType::boolean: return bits >> 63;
      default: {
        const int64_t wide =
            special ? static_cast<int64_t>(bits) : static_cast<int64_t>(bits % 41) - 20;
        return static_cast<uint64_t>(wide) & (~uint64_t{0} >> (64 - 8 * byte_size(type)));
      }
    }
  }

  std::vector<int64_t> numbers_;
  std::mt19937_64 random_;
  std::vector<std::vector<char>> memory_;
  std::vector<int64_t> starts_;
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
inline std::string memory_difference(const lower::Kernel& kernel, KernelCall& expected,
                                     KernelCall& found) {
  const std::vector<char*> expected_at = expected.addresses();
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const DType type = kernel.buffers[b].type;
    const int64_t size = byte_size(type);
    const std::vector<char>& memory = expected.memory()[b];
    const std::vector<char>& other = found.memory()[b];
    const int64_t start = expected_at[b] - memory.data();
    for (int64_t at = start % size; at + size <= static_cast<int64_t>(memory.size()); at += size) {
      const uint64_t x = lower::read_element(type, memory.data() + at);
      const uint64_t y = lower::read_element(type, other.data() + at);
      if (x == y || (is_nan(type, x) && is_nan(type, y))) continue;
      return fmt::format("element {} of {}: interpreter {:x}, generated code {:x}",
                         (at - start) / size, kernel.buffers[b].name, x, y);
    }
  }
  return "";
}

/// Runs both on memory of `seed`. "" if they agree.
inline std::string run_difference(const lower::Kernel& kernel, KernelFunction function,
                                  const std::vector<int64_t>& numbers, uint64_t seed,
                                  const lower::HostFunctions& functions = {}) {
  KernelCall expected(kernel, numbers, seed);
  KernelCall found(kernel, numbers, seed);
  const std::vector<char*> expected_at = expected.addresses();
  const std::vector<char*> found_at = found.addresses();
  const int64_t size = lower::parallel_size(kernel, numbers.data());
  expected.split(size, seed, [&](int64_t begin, int64_t end, int64_t thread) {
    lower::interpret(kernel, expected_at.data(), numbers.data(), begin, end, thread, functions);
  });
  found.split(size, seed, [&](int64_t begin, int64_t end, int64_t thread) {
    function(found_at.data(), numbers.data(), begin, end, thread);
  });
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
