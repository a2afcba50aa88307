#include "compile/kernel_code.h"

#include <future>
#include <map>
#include <utility>

#include "torch_compat/convert.h"

namespace antegrad::compiler {

using kernels::Outcome;

std::vector<Outcome<KernelCode>> build_code(const KernelSources& all,
                                            const kernels::Compiler& compiler) {
  const auto on_gpu = [&](size_t i) {
    return runtime::CudaFunction::make(all.sources[i].text, all.sources[i].functions.front(),
                                       torch_compat::to_c10_device(all.devices[i]));
  };
  std::vector<kernels::Source> for_cpu;
  std::map<size_t, std::future<decltype(on_gpu(0))>> for_gpus;
  for (size_t i = 0; i < all.sources.size(); ++i) {
    if (all.devices[i].kind == DeviceKind::cpu) {
      for_cpu.push_back(all.sources[i]);
    } else {
      for_gpus.emplace(i, std::async(std::launch::async, on_gpu, i));
    }
  }
  const auto built = kernels::build(for_cpu, compiler, {});
  std::vector<Outcome<KernelCode>> code;
  const auto add = [&](const auto& outcome) {
    code.push_back(outcome ? Outcome<KernelCode>(*outcome) : outcome.failure());
  };
  for (size_t i = 0, next = 0; i < all.sources.size(); ++i) {
    const auto known = for_gpus.find(i);
    known == for_gpus.end() ? add(built[next++]) : add(known->second.get());
  }
  return code;
}

}  // namespace antegrad::compiler
