#include "lower/eager_cpu.h"

#include <gtest/gtest.h>

namespace antegrad::testing {
namespace eager_cpu_test {

using lower::OneDnn;
using lower::onednn_limited;

// A limit is a value of ONEDNN_MAX_CPU_ISA, in any case, as oneDNN reads it.
TEST(EagerCpu, OneDnnKeepsToItsLimit) {
  EXPECT_EQ(onednn_limited(OneDnn::avx512_bf16, "AVX512_CORE"), OneDnn::avx512);
  EXPECT_EQ(onednn_limited(OneDnn::avx512_bf16, "avx512_core_vnni"), OneDnn::avx512);
  EXPECT_EQ(onednn_limited(OneDnn::avx512_bf16, "AVX512_CORE_BF16"), OneDnn::avx512_bf16);
  EXPECT_EQ(onednn_limited(OneDnn::avx512, "AVX512_CORE_AMX"), OneDnn::avx512);
  EXPECT_EQ(onednn_limited(OneDnn::avx2, "AVX2"), OneDnn::avx2);
  EXPECT_EQ(onednn_limited(OneDnn::off, "AVX2"), OneDnn::off);
}

TEST(EagerCpu, ALimitThatWasNeverComparedIsUnknown) {
  EXPECT_EQ(onednn_limited(OneDnn::avx512, "AVX2"), OneDnn::unknown);
  EXPECT_EQ(onednn_limited(OneDnn::avx2, "SSE41"), OneDnn::unknown);
  EXPECT_EQ(onednn_limited(OneDnn::avx512_bf16, "SOMETHING"), OneDnn::unknown);
}

}  // namespace eager_cpu_test
}  // namespace antegrad::testing
