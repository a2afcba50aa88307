#include "lower/eager_cpu.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

namespace antegrad::lower {
namespace {

/// The highest of the kinds that we tell apart within a limit; `unknown` for those below AVX2.
struct Limit {
  std::string_view prefix;
  OneDnn highest;
};

/// The first row whose prefix fits counts.
constexpr Limit kLimits[] = {
    {"DEFAULT", OneDnn::avx512_bf16},
    {"ALL", OneDnn::avx512_bf16},
    {"AVX10", OneDnn::avx512_bf16},
    {"AVX512_CORE_BF16", OneDnn::avx512_bf16},
    {"AVX512_CORE_FP16", OneDnn::avx512_bf16},
    {"AVX512_CORE_AMX", OneDnn::avx512_bf16},
    {"AVX512_CORE", OneDnn::avx512},
    {"AVX2", OneDnn::avx2},
};

OneDnn onednn_of_instructions() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bf16") != 0) return OneDnn::avx512_bf16;
  if (__builtin_cpu_supports("avx512bw") != 0) return OneDnn::avx512;
  if (__builtin_cpu_supports("avx2") != 0) return OneDnn::avx2;
#endif
  return OneDnn::off;
}

}  // namespace

std::optional<Capability> capability_beside(std::string aten) {
#if defined(__aarch64__)
  // ATen's default there; SVE has the same registers and more.
  return Capability::neon;
#endif
  std::ranges::transform(aten, aten.begin(), [](unsigned char c) { return std::tolower(c); });
  return capability_from_name(aten);
}

std::string why_not_exact(Capability capability) {
  const CTarget& target = c_target(capability);
  if (target.exact) return "";
  return fmt::format(
      "no recipe was compared with libtorch at the capability {}; lowering=close has kernels",
      target.name);
}

OneDnn onednn_limited(OneDnn cpu, std::string_view limit) {
  std::string upper(limit);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  const auto* row = std::ranges::find_if(
      kLimits, [&](const Limit& candidate) { return upper.starts_with(candidate.prefix); });
  if (cpu == OneDnn::off) return cpu;
  if (row == std::end(kLimits)) return OneDnn::unknown;
  // ATen asks the CPU, not oneDNN, whether it may call oneDNN for bf16.
  if (row->highest == OneDnn::avx2 && cpu != OneDnn::avx2) return OneDnn::unknown;
  return std::min(cpu, row->highest);
}

OneDnn onednn_of_this_cpu() {
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* limit = std::getenv(name);
    if (limit != nullptr && *limit != '\0') return onednn_limited(onednn_of_instructions(), limit);
  }
  return onednn_of_instructions();
}

}  // namespace antegrad::lower
