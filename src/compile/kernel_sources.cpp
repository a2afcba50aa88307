#include "compile/kernel_sources.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "lower/c_printer.h"
#include "lower/cuda_printer.h"
#include "runtime/cuda_code.h"
#include "torch_compat/convert.h"
#include "torch_compat/device_model.h"

namespace antegrad::compiler {
namespace {

const std::string& libtorch_build() {
  static const auto text = to_string(hash_of_bytes(at::show_config()));
  return text;
}

// `plan`: of a kernel for a GPU.
kernels::Source source_of(const lower::Kernel& kernel, const lower::CudaPlan& plan,
                          lower::Capability capability, Device device) {
  if (capability == lower::Capability::cuda) {
    return {.text = lower::cuda_source(kernel, plan),
            .functions = {kernel.name},
            .capability = capability,
            .made_for =
                fmt::format("{}, {}", runtime::cuda_code_maker(torch_compat::to_c10_device(device)),
                            libtorch_build())};
  }
  return {.text = lower::c_source(std::span(&kernel, 1), lower::c_target(capability)),
          .functions = {kernel.name},
          .capability = capability,
          .numerics = kernels::Numerics::exact,  // at each level: what is fused is spelt out
          .needed = {"libtorch_cpu.so"},
          .made_for = this_machine()};
}

}  // namespace

const std::string& this_machine() {
  static const auto text =
      fmt::format("{}, {}", torch_compat::cpu_and_libtorch(), libtorch_build());
  return text;
}

KernelSources sources_of(const std::vector<lower::KernelOfGroup>& kernels,
                         const std::function<void(lower::Kernel&)>& fault) {
  KernelSources found;
  // The name of a kernel is a hash of its text. For a GPU sizes decide, too.
  std::map<std::tuple<std::string_view, std::string, int32_t, bool>, size_t> known;
  for (const auto& made : kernels) {
    const auto& named = made.kernel.kernel;
    const bool on_gpu = made.kernel.capability == lower::Capability::cuda;
    const auto plan =
        on_gpu ? lower::cuda_plan(named, made.kernel.numbers.data()) : lower::CudaPlan();
    const auto [place, is_new] =
        known.emplace(std::tuple(std::string_view(named.name), to_string(made.kernel.device),
                                 plan.kept, plan.warps),
                      found.sources.size());
    found.of_kernel.push_back(place->second);
    if (!is_new) continue;
    auto kernel = named;
    if (fault) fault(kernel);
    found.sources.push_back(source_of(kernel, plan, made.kernel.capability, made.kernel.device));
    found.devices.push_back(made.kernel.device);
  }
  return found;
}

Hash128 with_code(const Hash128& said, const kernels::Source& source,
                  const kernels::Compiler& compiler) {
  // That of a GPU is part of what its code is made for.
  const bool on_cpu = source.capability != lower::Capability::cuda;
  const auto by = on_cpu ? fmt::format(" {} {}", fmt::join(compiler.command, " "), compiler.version)
                         : std::string();
  return hash_of_bytes(fmt::format("{} {} {}{}", to_string(said),
                                   to_string(hash_of_bytes(source.text)), source.made_for, by));
}

}  // namespace antegrad::compiler
