#include "compile/sleef.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "lower/inline_functions.h"
#include "lower/interpreter.h"
#include "torch_compat/libtorch_symbol.h"

namespace antegrad {
namespace {

/// Every so many patterns of bits, so that all exponents and both signs occur.
constexpr uint32_t kStep = 0x1fffff;
constexpr size_t kSample = (size_t{1} << 32) / kStep / 16 * 16;

std::vector<float> sample() {
  std::vector<float> numbers(kSample);
  for (size_t i = 0; i < kSample; ++i) {
    numbers[i] = std::bit_cast<float>(static_cast<uint32_t>(i) * kStep);
  }
  return numbers;
}

std::vector<float> ours(std::string_view function, lower::Capability capability) {
  std::vector<float> in = sample(), out(kSample);
  const lower::Kernel kernel = lower::function_kernel("own", function, capability, true);
  char* const buffers[] = {reinterpret_cast<char*>(in.data()), reinterpret_cast<char*>(out.data())};
  const int64_t numbers[] = {kSample};
  lower::interpret(kernel, buffers, numbers, 0, kSample, 0);
  return out;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void apply_avx2(const void* symbol, float* numbers) {
  const auto function = reinterpret_cast<__m256 (*)(__m256)>(const_cast<void*>(symbol));
  for (size_t i = 0; i < kSample; i += 8) {
    _mm256_storeu_ps(numbers + i, function(_mm256_loadu_ps(numbers + i)));
  }
}

__attribute__((target("avx512f"))) void apply_avx512(const void* symbol, float* numbers) {
  const auto function = reinterpret_cast<__m512 (*)(__m512)>(const_cast<void*>(symbol));
  for (size_t i = 0; i < kSample; i += 16) {
    _mm512_storeu_ps(numbers + i, function(_mm512_loadu_ps(numbers + i)));
  }
}
#endif

}  // namespace

bool has_our_bits(std::string_view function, const void* symbol, lower::Capability capability) {
#if defined(__x86_64__)
  std::vector<float> theirs = sample();
  if (capability == lower::Capability::avx512) {
    apply_avx512(symbol, theirs.data());
  } else if (capability == lower::Capability::avx2) {
    apply_avx2(symbol, theirs.data());
  } else {
    return false;
  }
  return std::ranges::equal(ours(function, capability), theirs, [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  });
#else
  return false;
#endif
}

bool sleef_has_our_bits(lower::Capability capability) {
  static const bool result = [&] {
    return std::ranges::all_of(lower::kInlineFunctions, [&](std::string_view function) {
      const auto name = lower::sleef_symbol(function, capability);
      const void* const symbol = torch_compat::libtorch_symbol(name.c_str());
      return symbol != nullptr && has_our_bits(function, symbol, capability);
    });
  }();
  return result;
}

}  // namespace antegrad
