#pragma once

/// \file
/// Generated code for NVIDIA's GPUs: compiled by NVRTC, loaded and launched by the driver. Both
/// come with a libtorch that has CUDA, and are found beside it when they are asked for, so no
/// header of CUDA is needed.

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/outcome.h"

namespace antegrad::runtime {

/// A kernel that is loaded on a device. Any number of threads may launch it at once.
class CudaFunction {
 public:
  /// The function of this name in a file of CUDA C++. Compiled once a process and device, which
  /// takes some tens of milliseconds. The device has to be in use already.
  static kernels::Outcome<std::shared_ptr<const CudaFunction>> make(const std::string& source,
                                                                    const std::string& name,
                                                                    c10::Device device);
  ~CudaFunction();
  CudaFunction(const CudaFunction&) = delete;
  CudaFunction& operator=(const CudaFunction&) = delete;

  /// On this thread's stream of the device. `words` are the bytes of the one argument. Throws
  /// Error.
  void launch(int64_t blocks, int32_t threads, std::vector<uint64_t>& words) const;
  /// The same for the function NAME_finish, which the file must have.
  void finish(int64_t blocks, int32_t threads, std::vector<uint64_t>& words) const;

  c10::Device device() const { return device_; }

 private:
  CudaFunction(c10::Device device, void* module, void* function, void* finish)
      : device_(device), module_(module), function_(function), finish_(finish) {}
  void start(void* function, int64_t blocks, int32_t threads, std::vector<uint64_t>& words) const;
  const c10::Device device_;
  void* const module_;
  void* const function_;
  void* const finish_;  // null if there is none
};

/// Whether CudaFunction::make() may work: libtorch has CUDA, and this process sees a GPU.
bool has_cuda_code();

/// What the code for a device depends on: its model, the compiler, and the driver.
std::string cuda_code_maker(c10::Device device);

}  // namespace antegrad::runtime
