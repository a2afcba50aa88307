#pragma once

/// \file
/// Prints kernels as CUDA C++ for NVRTC: no headers, every rounding an intrinsic of its own. Over
/// elements the code has the bits of interpret(), but for functions of the library; folds are in
/// the order of the threads, the same in each run with as many threads.
///
///   extern "C" __global__ void NAME(const Words<N> words)
///   extern "C" __global__ void NAME_finish(const Words<N> words)
///
/// `words`, of 8 bytes: addresses of the kernel's buffers, of sums over rows that of the value; its
/// arguments (scalars as the bits of a double); parallel_size(). Where CudaLaunch::parts is not 0,
/// there follow the address of `scratch` bytes, aligned to 16, which hold anything, `parts`, and
/// for each buffer of sums over rows the cuda_type_code() of its value; the second function exists,
/// and runs behind the first one with the same words.

#include <cstdint>
#include <string>
#include <string_view>

#include "lower/kernel.h"

namespace antegrad::lower {

/// Why there is no CUDA code of a valid kernel; "" if there is.
std::string_view why_not_cuda(const Kernel& kernel);

/// What the code of a kernel is for: sizes for which it is fast. It serves all others, too.
struct CudaPlan {
  /// Elements that a thread takes at once, where they lie together and are aligned.
  int32_t lanes = 1;
  /// Over rows: how many times `lanes` elements of a row a thread keeps in registers, if a row has
  /// no more; 0 if rows are read again by each stage.
  int32_t kept = 0;
  bool warps = false;  ///< over rows: a row has a warp, not a block
  friend bool operator==(const CudaPlan&, const CudaPlan&) = default;
};
CudaPlan cuda_plan(const Kernel& kernel, const int64_t* numbers);

/// A file with one kernel that has CUDA code. `plan`: that of the arguments of all calls.
std::string cuda_source(const Kernel& kernel, const CudaPlan& plan);

/// How many threads run a kernel with these arguments.
struct CudaLaunch {
  int64_t blocks = 0;
  int32_t threads = 0;        ///< of a block, a multiple of 32
  int64_t parts = 0;          ///< partial sums of a column; 0 without a second function
  int64_t scratch = 0;        ///< bytes of memory for them
  int64_t finish_blocks = 0;  ///< of the second function
  int32_t finish_threads = 0;
};
CudaLaunch cuda_launch(const Kernel& kernel, const int64_t* numbers);

/// Of a value that holds sums over rows: a floating-point type.
uint64_t cuda_type_code(DType type);

/// Over more elements than these there is no launch: indices have 32 bits.
inline constexpr int64_t kMostCudaElements = (int64_t{1} << 31) - 1;

}  // namespace antegrad::lower
