#pragma once

/// \file
/// Prints kernels as CUDA C++ for NVRTC: no headers, one function each, every rounding an intrinsic
/// of its own. Over elements the code has the bits of interpret(), but for functions of the
/// library; folds are in the order of the threads of a block, the same in each run with as many
/// threads.
///
///   extern "C" __global__ void NAME(const Words<N> words)
///
/// `words`: addresses of the kernel's buffers, its arguments (scalars as the bits of a double), and
/// parallel_size(), in words of 8 bytes.

#include <cstdint>
#include <string>
#include <string_view>

#include "lower/kernel.h"

namespace antegrad::lower {

/// Why there is no CUDA code of a valid kernel; "" if there is.
std::string_view why_not_cuda(const Kernel& kernel);

/// A file with one kernel that has CUDA code.
std::string cuda_source(const Kernel& kernel);

/// Elements that a thread takes at once: 16 bytes of the smallest element that lies densely.
int32_t cuda_lanes(const Kernel& kernel);

/// How many threads run a kernel with these arguments. A block is what Buffer::thread counts.
struct CudaLaunch {
  int64_t blocks = 0;
  int32_t threads = 0;  ///< of a block, a multiple of 32
};
CudaLaunch cuda_launch(const Kernel& kernel, const int64_t* numbers);

/// Over more elements than these there is no launch: indices have 32 bits.
inline constexpr int64_t kMostCudaElements = (int64_t{1} << 31) - 1;

}  // namespace antegrad::lower
