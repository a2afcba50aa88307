#pragma once

/// \file
/// Runs CUDA code of kernels on the CPU, thread by thread: what it computes, without a GPU. Blocks
/// over rows have one thread, so that barriers have nothing to do.

#include <fmt/format.h>

#include <string>

#include "lower/cuda_printer.h"
#include "support/kernels.h"

namespace antegrad::testing {

/// A loaded library of one kernel.
class EmulatedCudaKernel : public LoadedSource {
 public:
  explicit EmulatedCudaKernel(const lower::Kernel& kernel)
      : LoadedSource("kernel.cpp",
                     kBefore + with_single_warps(lower::cuda_source(kernel)) + after(kernel),
                     "c++ -std=c++20 -O1 -w -ffp-contract=off -fno-strict-aliasing -shared -fPIC") {
  }

  /// Does all of the kernel in the call of the last thread, nothing in others.
  KernelFunction function() const { return LoadedSource::function("emulated"); }

 private:
  static std::string with_single_warps(std::string source) {
    const std::string warp = "kWarp = 32";
    return source.replace(source.find(warp), warp.size(), "kWarp = 1");
  }

  static std::string after(const lower::Kernel& kernel) {
    const size_t buffers = kernel.buffers.size(), numbers = kernel.numbers.size();
    const bool rows = kernel.space == lower::Space::rows;
    return fmt::format(R"(
extern "C" void emulated(char* const* buffers, const i64* numbers, i64 begin, i64 end, i64 thread) {{
  if (thread != {4}) return;
  Words<{0}> words;
  for (int i = 0; i < {1}; i++) words.at[i] = (u64)buffers[i];
  for (int i = 0; i < {2}; i++) words.at[{1} + i] = (u64)numbers[i];
  words.at[{0} - 1] = (u64)end;
  gridDim.x = 3;
  blockDim.x = {5};
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {{
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) {3}(words);
  }}
}}
)",
                       buffers + numbers + 1, buffers, numbers, kernel.name,
                       KernelCall::kThreads - 1, rows ? 1 : 4);
  }

  static constexpr const char* kBefore = R"(
#include <cmath>
#include <cstring>
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
struct Index { unsigned x; };
static Index blockIdx, threadIdx, blockDim, gridDim;
static void __syncthreads() {}
template <class T> static T __shfl_xor_sync(unsigned, T value, int) { return value; }
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
