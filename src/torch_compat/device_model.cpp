#include "torch_compat/device_model.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/util/StringUtil.h>
#include <torch/version.h>

#include <fstream>

#include "torch_compat/precision.h"

namespace antegrad::torch_compat {
namespace {

std::string read_cpu_model() {
  std::ifstream information("/proc/cpuinfo");
  for (std::string line; std::getline(information, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown CPU";
}

const std::string& cpu_model() {
  static const auto model = read_cpu_model();
  return model;
}

}  // namespace

std::string libtorch_version() { return TORCH_VERSION; }

std::string cpu_and_libtorch() { return c10::str(cpu_model(), ", libtorch ", TORCH_VERSION); }

std::string device_model(c10::Device device) {
  const auto precision = float32_precision_switches(at::globalContext());
  const auto model = device.is_cuda() ? cuda_model(device)
                                      : c10::str(cpu_model(), ", ", at::get_cpu_capability(), ", ",
                                                 at::get_num_threads(), " threads");
  return c10::str(model, ", libtorch ", TORCH_VERSION, ", precision ", precision);
}

}  // namespace antegrad::torch_compat
