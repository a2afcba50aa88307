#include "lower/eager_cpu.h"

namespace antegrad::lower {

OneDnn onednn_of_this_cpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bf16") != 0) return OneDnn::avx512_bf16;
  if (__builtin_cpu_supports("avx512bw") != 0) return OneDnn::avx512;
  if (__builtin_cpu_supports("avx2") != 0) return OneDnn::avx2;
#endif
  return OneDnn::off;
}

}  // namespace antegrad::lower
