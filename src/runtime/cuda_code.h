#pragma once

/// \file
/// Generated code for NVIDIA's GPUs: compiled by NVRTC, loaded and launched by the driver. Both
/// come with a libtorch that has CUDA, and are found beside it when they are asked for, so no
/// header of CUDA is needed.

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device_code.h"
#include "kernels/outcome.h"

namespace antegrad::runtime {

/// A kernel that is loaded on a device. Any number of threads may launch it at once.
class CudaFunction {
 public:
  /// The function of this name in code that compile_for_cuda() made for the device. Loaded once a
  /// process and device. The device has to be in use already.
  static kernels::Outcome<std::shared_ptr<const CudaFunction>> load(
      std::shared_ptr<const kernels::DeviceCode> code, const std::string& name, c10::Device device);
  ~CudaFunction();
  CudaFunction(const CudaFunction&) = delete;
  CudaFunction& operator=(const CudaFunction&) = delete;

  /// On this thread's stream of the device. `words` are the bytes of the one argument. Throws
  /// Error.
  void launch(int64_t blocks, int32_t threads, std::vector<uint64_t>& words) const;
  /// The same for the function NAME_finish, which the file must have.
  void finish(int64_t blocks, int32_t threads, std::vector<uint64_t>& words) const;

  c10::Device device() const { return device_; }
  const std::shared_ptr<const kernels::DeviceCode>& code() const { return code_; }

 private:
  CudaFunction(std::shared_ptr<const kernels::DeviceCode> code, c10::Device device, void* module,
               void* function, void* finish)
      : code_(std::move(code)),
        device_(device),
        module_(module),
        function_(function),
        finish_(finish) {}
  void start(void* function, int64_t blocks, int32_t threads, std::vector<uint64_t>& words) const;
  const std::shared_ptr<const kernels::DeviceCode> code_;
  const c10::Device device_;
  void* const module_;
  void* const function_;
  void* const finish_;  // null if there is none
};

/// Whether there may be such code: libtorch has CUDA, and this process sees a GPU. The functions
/// below need it.
bool has_cuda_code();

/// A file of CUDA C++, with what it is compiled by and for.
kernels::DeviceSource cuda_source(std::string text, c10::Device device);

/// A kernels::DeviceCompiler for such files: NVRTC, which takes some tens of milliseconds.
kernels::Outcome<std::string> compile_for_cuda(const kernels::DeviceSource& source);

/// On what it depends what code for a device computes, and how fast: its model, libtorch, the
/// compiler, and the driver.
std::string cuda_code_maker(c10::Device device);

}  // namespace antegrad::runtime
