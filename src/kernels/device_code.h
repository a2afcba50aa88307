#pragma once

/// \file
/// Code for devices, by compilers that are functions of this process, as NVRTC is: found in this
/// process, in a bundle, or in the folder of compiled files, or compiled and kept, as build.h does
/// it for the CPU. An entry has the same form and the same checks, and counts for the same bound.
///
/// Nothing here throws for what a machine can be like. Without a folder the code is made all the
/// same, and not kept. May be called on several threads at once. Code is compiled once per process,
/// however many ask for it.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/build.h"
#include "kernels/code.h"
#include "kernels/outcome.h"

namespace antegrad::kernels {

/// What can change the code that is made from it is part of it.
struct DeviceSource {
  std::string text;
  std::string compiler;                ///< name and version
  std::vector<std::string> arguments;  ///< with the architecture
  std::string made_for = {};           ///< which libtorch; not part of the key in bundles
};

/// From a source to the bytes that a driver loads; called on several threads at once.
using DeviceCompiler = std::function<Outcome<std::string>(const DeviceSource&)>;

class DeviceCode final : public Code {
 public:
  explicit DeviceCode(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string bytes() const override { return bytes_; }
  std::string_view view() const { return bytes_; }

 private:
  const std::string bytes_;
};

struct DeviceBuilt {
  std::shared_ptr<const DeviceCode> code;
  CodeFrom from;
  std::string damage = {};  ///< why an entry of the folder was not used, or none could be kept
};

/// One result a source, in order. Sources that have to be compiled are compiled in parallel.
std::vector<Outcome<DeviceBuilt>> build_for_devices(std::span<const DeviceSource> sources,
                                                    const DeviceCompiler& compile,
                                                    const Settings& settings);

}  // namespace antegrad::kernels
