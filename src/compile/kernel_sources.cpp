#include "compile/kernel_sources.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <span>
#include <string_view>

#include "lower/c_printer.h"
#include "torch_compat/device_model.h"

namespace antegrad::compiler {
namespace {

kernels::Source source_of(const lower::Kernel& kernel, lower::Capability capability) {
  return {.text = lower::c_source(std::span(&kernel, 1), lower::c_target(capability)),
          .functions = {kernel.name},
          .capability = capability,
          .numerics = kernels::Numerics::exact,  // at each level: what is fused is spelt out
          .needed = {"libtorch_cpu.so"},
          .made_for = this_machine()};
}

}  // namespace

const std::string& this_machine() {
  static const auto text = fmt::format("{}, {}", torch_compat::cpu_and_libtorch(),
                                       to_string(hash_of_bytes(at::show_config())));
  return text;
}

KernelSources sources_of(const std::vector<lower::KernelOfGroup>& kernels,
                         lower::Capability capability,
                         const std::function<void(lower::Kernel&)>& fault) {
  KernelSources found;
  std::map<std::string_view, size_t> by_name;  // the name of a kernel is a hash of its text
  for (const auto& made : kernels) {
    const auto& named = made.kernel.kernel;
    const auto [place, is_new] = by_name.emplace(named.name, found.sources.size());
    found.of_kernel.push_back(place->second);
    if (!is_new) continue;
    auto kernel = named;
    if (fault) fault(kernel);
    found.sources.push_back(source_of(kernel, capability));
  }
  return found;
}

Hash128 with_code(const Hash128& said, const kernels::Source& source,
                  const kernels::Compiler& compiler) {
  return hash_of_bytes(fmt::format("{} {} {} {} {}", to_string(said),
                                   to_string(hash_of_bytes(source.text)), source.made_for,
                                   fmt::join(compiler.command, " "), compiler.version));
}

}  // namespace antegrad::compiler
