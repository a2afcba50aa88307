#pragma once

/// \file
/// Runs CUDA code of kernels on the CPU, without a GPU: blocks one after the other. A block has one
/// thread, and then the order of the interpreter, or four of the CPU's that wait for each other
/// where the code says so, in warps of two.

#include <fmt/format.h>

#include <string>

#include "lower/cuda_printer.h"
#include "support/kernels.h"

namespace antegrad::testing {

/// A loaded library of one kernel.
class EmulatedCudaKernel : public LoadedSource {
 public:
  EmulatedCudaKernel(const lower::Kernel& kernel, const lower::CudaPlan& plan, int threads)
      : LoadedSource("kernel.cpp",
                     fmt::format("constexpr int kThreads = {};\n", threads) + kBefore +
                         with_small_blocks(lower::cuda_source(kernel, plan)) + after(kernel),
                     "c++ -std=c++20 -O1 -w -ffp-contract=off -fno-strict-aliasing -shared -fPIC "
                     "-pthread") {}

  /// Does all of the kernel in the call of the last thread, nothing in others.
  KernelFunction function() const { return LoadedSource::function("emulated"); }

 private:
  static std::string with_small_blocks(std::string source) {
    const std::string large = "kWarp = 32, kWarpsOfBlock = 8, kColumnThreads = 256";
    return source.replace(
        source.find(large), large.size(),
        "kWarp = (kThreads + 1) / 2, kWarpsOfBlock = 2, kColumnThreads = kThreads");
  }

  static std::string after(const lower::Kernel& kernel) {
    const size_t buffers = kernel.buffers.size(), numbers = kernel.numbers.size();
    const auto sums = std::ranges::count_if(
        kernel.buffers, [](const lower::Buffer& buffer) { return !buffer.thread.is(0); });
    const bool columns = kernel.space == lower::Space::columns;
    const bool finishes = columns || sums > 0;
    return fmt::format(R"(
static void run(void (*function)(const Words<{0}>), const Words<{0}>& words, int blocks) {{
  for (int block = 0; block < blocks; block++) {{
    const auto thread = [&](int i) {{
      gridDim.x = blocks;
      blockDim.x = kThreads;
      blockIdx.x = block;
      threadIdx.x = i;
      function(words);
    }};
    if (kThreads == 1) {{
      thread(0);
      continue;
    }}
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) threads.emplace_back(thread, i);
    for (auto& thread : threads) thread.join();
  }}
}}
extern "C" void emulated(char* const* buffers, const i64* numbers, i64 begin, i64 end, i64 thread) {{
  if (thread != {4}) return;
  Words<{0}> words = {{}};
  for (int i = 0; i < {1}; i++) words.at[i] = (u64)buffers[i];
  for (int i = 0; i < {2}; i++) words.at[{1} + i] = (u64)numbers[i];
  words.at[{1} + {2}] = (u64)end;
  const int parts = kThreads == 1 || (end < 3 && !{10}) ? 1 : 3;
  if ({5}) {{
    std::vector<u64> scratch(1 << 16, 0x7ff8dead7ff8dead);
    words.at[{1} + {2} + 1] = (u64)scratch.data();
    words.at[{1} + {2} + 2] = parts;
    for (int i = 0; i < {6}; i++) words.at[{1} + {2} + 3 + i] = {7};
    run({3}, words, {8} * parts);
    run({9}, words, 2);
  }} else {{
    run({3}, words, 3);
  }}
}}
)",
                       buffers + numbers + 1 + (finishes ? 2 + sums : 0), buffers, numbers,
                       kernel.name, KernelCall::kThreads - 1, finishes, sums,
                       lower::cuda_type_code(DType::f32), columns ? 2 : 1,
                       finishes ? kernel.name + "_finish" : kernel.name, columns);
  }

  static constexpr const char* kBefore = R"(
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
struct Index { unsigned x; };
static thread_local Index blockIdx, threadIdx, blockDim, gridDim;
static std::barrier<> of_block(kThreads),
    of_warps[2] = {std::barrier<>(kThreads / 2), std::barrier<>(kThreads / 2)};
static void __syncthreads() { of_block.arrive_and_wait(); }
static void __syncwarp() { if (kThreads > 1) of_warps[threadIdx.x / 2].arrive_and_wait(); }
template <class T> static T __shfl_xor_sync(unsigned, T value, int distance) {
  static T of_threads[kThreads];
  of_threads[threadIdx.x] = value;
  __syncwarp();
  value = of_threads[threadIdx.x ^ distance];
  __syncwarp();
  return value;
}
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static float __fsqrt_rn(float a) { return std::sqrt(a); }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dsub_rn(double a, double b) { return a - b; }
static double __dmul_rn(double a, double b) { return a * b; }
static double __ddiv_rn(double a, double b) { return a / b; }
static double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
static double __dsqrt_rn(double a) { return std::sqrt(a); }
)";
};

}  // namespace antegrad::testing
