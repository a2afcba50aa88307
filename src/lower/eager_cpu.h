#pragma once

/// \file
/// What decides, besides operator and tensors, which code eager ATen runs on a CPU.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lower/c_target.h"

namespace antegrad::lower {

/// For which instructions oneDNN generates code. It looks at the CPU, not at ATen's capability.
/// `unknown`: neither the CPU nor the environment says it; then what oneDNN may compute is refused.
enum class OneDnn : uint8_t { off, avx2, avx512, avx512_bf16, unknown };

struct EagerCpu {
  /// Capability::cuda: a GPU, where none of the others matters.
  Capability capability = Capability::baseline;
  OneDnn onednn = OneDnn::off;  ///< off also where the user turned it off
  int64_t threads = 1;          ///< at::get_num_threads()
  /// Functions of Sleef have the bits of the code that CodeBuilder has for them.
  bool sleef_in_line = true;
  bool second_form = false;  ///< whether ATen's compiler made what RecipeRow::second says
  /// Whether groups on GPUs get kernels, too: those of EagerCpu{Capability::cuda}.
  bool beside_gpus = false;
};

/// The instructions that kernels are generated for where ATen says that it runs those of `aten`, as
/// at::get_cpu_capability(); nothing if there are no kernels for them.
std::optional<Capability> capability_beside(std::string aten);

/// Why there are no exact kernels with these instructions; "" if there are.
std::string why_not_exact(Capability capability);

/// What oneDNN has on this CPU, within the limit of ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA.
OneDnn onednn_of_this_cpu();

/// What is left of `cpu` within a limit, a value of ONEDNN_MAX_CPU_ISA.
OneDnn onednn_limited(OneDnn cpu, std::string_view limit);

}  // namespace antegrad::lower
