#pragma once

/// \file
/// What determines how long kernels take on a device, as a text: two devices with the same text
/// are alike.

#include <c10/core/Device.h>

#include <string>

namespace antegrad::torch_compat {

/// The model of a device. For the CPU also its instruction set and the number of threads. Always
/// the version of libtorch and the precision of float32 products.
std::string device_model(c10::Device device);

/// What generated code for the CPU depends on: its model, and the version of libtorch.
std::string cpu_and_libtorch();

/// "2.13.0"
std::string libtorch_version();

/// The name of a CUDA device and its number of multiprocessors.
std::string cuda_model(c10::Device device);

}  // namespace antegrad::torch_compat
