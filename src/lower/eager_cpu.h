#pragma once

/// \file
/// What decides, besides operator and tensors, which code eager ATen runs on a CPU.

#include <cstdint>

#include "lower/c_target.h"

namespace antegrad::lower {

/// For which instructions oneDNN generates code. It looks at the CPU, not at ATen's capability.
enum class OneDnn : uint8_t { off, avx2, avx512, avx512_bf16 };

struct EagerCpu {
  Capability capability = Capability::baseline;
  OneDnn onednn = OneDnn::off;  ///< off also where the user turned it off
};

/// What oneDNN has on this CPU.
OneDnn onednn_of_this_cpu();

}  // namespace antegrad::lower
