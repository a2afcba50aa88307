#pragma once

/// \file
/// What all CUDA code of kernels begins with: types, and operations that are rounded once.

#include <string_view>

namespace antegrad::lower {

inline constexpr std::string_view kCudaHead = R"(
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
constexpr int kWarp = 32, kWarpsOfBlock = 8, kColumnThreads = 256;

template <int N>
struct Words {
  u64 at[N];
};
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Lanes {
  T at[N];
};

template <class To, class From>
__device__ inline To as(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

__device__ inline f32 add_of(f32 a, f32 b) { return __fadd_rn(a, b); }
__device__ inline f64 add_of(f64 a, f64 b) { return __dadd_rn(a, b); }
__device__ inline f32 sub_of(f32 a, f32 b) { return __fsub_rn(a, b); }
__device__ inline f64 sub_of(f64 a, f64 b) { return __dsub_rn(a, b); }
__device__ inline f32 mul_of(f32 a, f32 b) { return __fmul_rn(a, b); }
__device__ inline f64 mul_of(f64 a, f64 b) { return __dmul_rn(a, b); }
__device__ inline f32 div_of(f32 a, f32 b) { return __fdiv_rn(a, b); }
__device__ inline f64 div_of(f64 a, f64 b) { return __ddiv_rn(a, b); }
__device__ inline f32 fma_of(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
__device__ inline f64 fma_of(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
__device__ inline f32 sqrt_of(f32 a) { return __fsqrt_rn(a); }
__device__ inline f64 sqrt_of(f64 a) { return __dsqrt_rn(a); }
__device__ inline f32 neg_of(f32 a) { return as<f32>(as<u32>(a) ^ 0x80000000u); }
__device__ inline f64 neg_of(f64 a) { return as<f64>(as<u64>(a) ^ 0x8000000000000000ULL); }
__device__ inline f32 abs_of(f32 a) { return as<f32>(as<u32>(a) & 0x7fffffffu); }
__device__ inline f64 abs_of(f64 a) { return as<f64>(as<u64>(a) & 0x7fffffffffffffffULL); }
__device__ inline f32 floor_of(f32 a) { return floorf(a); }
__device__ inline f64 floor_of(f64 a) { return floor(a); }
__device__ inline f32 ceil_of(f32 a) { return ceilf(a); }
__device__ inline f64 ceil_of(f64 a) { return ceil(a); }
__device__ inline f32 trunc_of(f32 a) { return truncf(a); }
__device__ inline f64 trunc_of(f64 a) { return trunc(a); }
__device__ inline f32 round_of(f32 a) { return rintf(a); }
__device__ inline f64 round_of(f64 a) { return rint(a); }

// With relative errors of up to 2^-20.
__device__ inline f32 near_expf(f32 a) {
#ifdef __CUDA_ARCH__
  return __expf(a);
#else
  return expf(a);
#endif
}
__device__ inline f32 near_quotient(f32 a, f32 b) {
#ifdef __CUDA_ARCH__
  f32 quotient;
  asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
  return quotient;
#else
  return a / b;
#endif
}

// As the instructions of x86: the second operand where one is NaN or both are zero.
template <class T>
__device__ inline T min_of(T a, T b) { return a < b ? a : b; }
template <class T>
__device__ inline T max_of(T a, T b) { return a > b ? a : b; }
__device__ inline f32 all_ones(f32) { return as<f32>(0xffffffffu); }
__device__ inline f64 all_ones(f64) { return as<f64>(0xffffffffffffffffULL); }
template <class T>
__device__ inline T minimum_of(T a, T b) { return a != a || b != b ? all_ones(a) : min_of(a, b); }
template <class T>
__device__ inline T maximum_of(T a, T b) { return a != a || b != b ? all_ones(a) : max_of(a, b); }
// Of folds, where the sign of a zero depends on the order.
template <class T>
__device__ inline T fold_minimum(T a, T b) { return minimum_of(a, b); }
template <class T>
__device__ inline T fold_maximum(T a, T b) { return maximum_of(a, b); }
#if __CUDA_ARCH__ >= 800
__device__ inline f32 fold_minimum(f32 a, f32 b) {
  f32 least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
}
__device__ inline f32 fold_maximum(f32 a, f32 b) {
  f32 most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}
#endif

__device__ inline f32 times_power(f32 a, int n) { return ldexpf(a, n); }
__device__ inline f64 times_power(f64 a, int n) { return ldexp(a, n); }
// a times 2 to the power of floor(n).
template <class T>
__device__ inline T scale_of(T a, T n) {
  if (a != a) return a;
  if (n != n) return n;
  if (n - n != 0) return mul_of(a, n > 0 ? n : T(0));
  const T most = 5000;
  return times_power(a, (int)floor_of(n < -most ? -most : n > most ? most : n));
}

template <class I>
struct Least;
template <>
struct Least<i32> {
  static constexpr i32 value = -2147483647 - 1;
};
template <>
struct Least<i64> {
  static constexpr i64 value = -9223372036854775807LL - 1;
};
// The smallest integer for NaN and for what does not fit.
template <class I, class T>
__device__ inline I truncated(T a) {
  const T end = -(T)Least<I>::value;
  return a >= -end && a < end ? (I)a : Least<I>::value;
}

__device__ inline u16 bf16_of(f32 a, u32 nan) {
#if __CUDA_ARCH__ >= 800
  u16 half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(a));
  return half;
#endif
  const u32 bits = as<u32>(a);
  if (a != a) return (u16)(nan != 0 ? nan : bits >> 16 | 0x40);
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
__device__ inline f32 f32_of_f16(u16 half) {
#ifdef __CUDA_ARCH__
  f32 single;
  asm("cvt.f32.f16 %0, %1;" : "=f"(single) : "h"(half));
  return single;
#endif
  const u32 sign = (u32)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
  if (exponent == 0) return as<f32>(sign | as<u32>(mul_of((f32)fraction, 0x1p-24f)));
  if (exponent == 31) {
    return as<f32>(sign | 0x7f800000u | fraction << 13 | (fraction != 0 ? 0x400000u : 0u));
  }
  return as<f32>(sign | (exponent + 112) << 23 | fraction << 13);
}
__device__ inline u16 f16_of(f32 a, u32 nan) {
#ifdef __CUDA_ARCH__
  u16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(a));
  return half;
#endif
  const u32 bits = as<u32>(a), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (a != a) return (u16)(nan != 0 ? nan : sign | 0x7e00 | (bits >> 13 & 0x1ff));
  if (as<f32>(size) >= 65520.0f) return (u16)(sign | 0x7c00);
  if (as<f32>(size) < 0x1p-14f) return (u16)(sign | (u32)rintf(mul_of(as<f32>(size), 0x1p24f)));
  return (u16)(sign | ((size + 0xfff + (size >> 13 & 1)) - (112u << 23)) >> 13);
}

// Rounds a sum to the type with this code (cuda_type_code()).
__device__ inline void store_as(u64 type, u64 address, i64 at, f64 sum) {
  if (type == 0) ((f32*)address)[at] = (f32)sum;
  if (type == 1) ((f64*)address)[at] = sum;
  if (type == 2) ((u16*)address)[at] = bf16_of((f32)sum, 0x7fc0);
  if (type == 3) ((u16*)address)[at] = f16_of((f32)sum, 0x7e00);
}

// Threads that share a row: a warp or a block. It takes the rows first, first + step, ...
template <bool kWarps>
struct Team {
  u32 lane = kWarps ? threadIdx.x % kWarp : threadIdx.x;
  u32 size = kWarps ? kWarp : blockDim.x;
  i64 first = (i64)blockIdx.x * (blockDim.x / size) + threadIdx.x / size;
  i64 step = (i64)gridDim.x * (blockDim.x / size);

  __device__ void wait() const {
    if (kWarps) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  // Of all threads, for each of them.
  template <class T, class Merge>
  __device__ T reduced(T value, Merge merge) const {
    for (int d = kWarp / 2; d > 0; d /= 2) {
      value = merge(value, __shfl_xor_sync(0xffffffffu, value, d));
    }
    if (kWarps || blockDim.x <= kWarp) return value;
    __shared__ T of_warps[32];
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warps[0];
    for (int i = 1; i < blockDim.x / kWarp; i++) value = merge(value, of_warps[i]);
    return value;
  }

  // The sums of all teams of the block, of which `mine` are V, where at least one is `left`.
  template <class T, int V>
  __device__ void store_sums(const Lanes<T, V>& mine, T* to, i64 left) const {
    if (!kWarps) {
      if (left > 0) *(Lanes<T, V>*)to = mine;
      return;
    }
    __shared__ T of_teams[kWarpsOfBlock][kWarp * V];
    __syncthreads();
    for (int k = 0; k < V; k++) of_teams[threadIdx.x / kWarp][lane * V + k] = mine.at[k];
    __syncthreads();
    if (threadIdx.x >= kWarp || left <= 0) return;
    for (int k = 0; k < V; k++) {
      f64 sum = 0;
#pragma unroll 1
      for (int i = 0; i < blockDim.x / kWarp; i++) sum = add_of(sum, (f64)of_teams[i][lane * V + k]);
      to[k] = (T)sum;
    }
  }
};

// How the threads of a block share columns: `across` of them lie side by side, in one row of `down`
// at a time.
struct Strips {
  u32 across = 1, down = 1, x = 0, y = 0, count = 0;

  __device__ Strips(i64 vectors) {
    while (across < kWarp && across < vectors && across < blockDim.x) across *= 2;
    down = blockDim.x / across;
    x = threadIdx.x % across;
    y = threadIdx.x / across;
    count = (u32)((vectors + across - 1) / across);
  }

  // Of the threads with one x, for the first one.
  template <int V, class T, class Merge>
  __device__ void reduce(T (&values)[V], Merge merge) const {
    __shared__ T of_threads[V][kColumnThreads];
    const u32 at = threadIdx.x;
    __syncthreads();
    for (int k = 0; k < V; k++) of_threads[k][at] = values[k];
    for (u32 d = blockDim.x / 2; d >= across; d /= 2) {
      __syncthreads();
      if (at >= d) continue;
      for (int k = 0; k < V; k++) of_threads[k][at] = merge(of_threads[k][at], of_threads[k][at + d]);
    }
    for (int k = 0; k < V; k++) values[k] = of_threads[k][at];
  }
};

// A sum of many numbers: in float64 or, of float64, with what its roundings lost (Knuth's two-sum).
// Long sums are as exact as short ones, and numbers whose sum is finite overflow nowhere.
template <class T>
struct Sum {
  f64 sum = 0;
  __device__ void add(T value) { sum = add_of(sum, (f64)value); }
  // Few numbers lose little in their own type, unless they overflow there.
  template <int V>
  __device__ void add_all(const T (&values)[V]) {
    T parts[V];
    for (int k = 0; k < V; k++) parts[k] = values[k];
    for (int h = V / 2; h > 0; h /= 2) {
      for (int k = 0; k < h; k++) parts[k] = add_of(parts[k], parts[k + h]);
    }
    if (sub_of(parts[0], parts[0]) == 0) return add(parts[0]);
    for (int k = 0; k < V; k++) add(values[k]);
  }
  __device__ f64 total() const { return sum; }
  template <class Team>
  __device__ T of(const Team& team) const {
    return (T)team.reduced(total(), [](const f64 a, const f64 b) { return add_of(a, b); });
  }
};
template <>
struct Sum<f64> {
  f64 sum = 0, lost = 0;
  __device__ void add(f64 value) {
    const f64 next = add_of(sum, value), added = sub_of(next, sum);
    lost = add_of(lost, add_of(sub_of(sum, sub_of(next, added)), sub_of(value, added)));
    sum = next;
  }
  template <int V>
  __device__ void add_all(const f64 (&values)[V]) {
    for (int k = 0; k < V; k++) add(values[k]);
  }
  // Where a number is infinite, or NaN, what was lost is NaN.
  __device__ f64 total() const { return lost == lost ? add_of(sum, lost) : sum; }
  template <class Team>
  __device__ f64 of(const Team& team) const {
    return team.reduced(total(), [](const f64 a, const f64 b) { return add_of(a, b); });
  }
};
)";

}  // namespace antegrad::lower
