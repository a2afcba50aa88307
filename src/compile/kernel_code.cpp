#include "compile/kernel_code.h"

#include <utility>

#include "kernels/device_code.h"
#include "torch_compat/convert.h"

namespace antegrad::compiler {
namespace {

using kernels::Outcome;

Outcome<KernelCode> for_cpu(const Outcome<kernels::Built>& built) {
  if (!built) return built.failure();
  return KernelCode{
      .from = built->from, .library = built->library, .function = built->functions.at(0)};
}

Outcome<KernelCode> for_gpu(const Outcome<kernels::DeviceBuilt>& built, const std::string& function,
                            c10::Device device) {
  if (!built) return built.failure();
  auto loaded = runtime::CudaFunction::load(built->code, function, device);
  if (!loaded) return loaded.failure();
  return KernelCode{.from = built->from, .gpu = std::move(*loaded)};
}

}  // namespace

std::shared_ptr<const kernels::Code> KernelCode::held() const {
  if (gpu != nullptr) return gpu->code();
  return library;
}

std::vector<Outcome<KernelCode>> build_code(const KernelSources& all,
                                            const kernels::Compiler& compiler) {
  const auto on_cpu = [&](size_t i) { return all.devices[i].kind == DeviceKind::cpu; };
  const auto device = [&](size_t i) { return torch_compat::to_c10_device(all.devices[i]); };
  std::vector<kernels::Source> sources;
  std::vector<kernels::DeviceSource> device_sources;
  for (size_t i = 0; i < all.sources.size(); ++i) {
    if (on_cpu(i)) {
      sources.push_back(all.sources[i]);
    } else {
      device_sources.push_back(runtime::cuda_source(all.sources[i].text, device(i)));
    }
  }
  const auto libraries = kernels::build(sources, compiler, {});
  const auto device_code =
      kernels::build_for_devices(device_sources, runtime::compile_for_cuda, {});
  std::vector<Outcome<KernelCode>> code;
  for (size_t i = 0, library = 0, of_device = 0; i < all.sources.size(); ++i) {
    code.push_back(
        on_cpu(i) ? for_cpu(libraries[library++])
                  : for_gpu(device_code[of_device++], all.sources[i].functions.front(), device(i)));
  }
  return code;
}

}  // namespace antegrad::compiler
