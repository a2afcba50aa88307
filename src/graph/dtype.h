#pragma once

/// \file
/// Element types and devices in graphs, independent of libtorch.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace antegrad {

/// Element type of a tensor. The table in dtype.cpp gives its name in text and its size.
enum class DType : uint8_t {
  f16,
  bf16,
  f32,
  f64,
  f8e4m3fn,
  f8e5m2,
  f8e4m3fnuz,
  f8e5m2fnuz,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  c32,
  c64,
  c128,
};

/// Name in text, e.g. "f32", "bool".
std::string_view name(DType dtype);
/// Bytes of one element.
int64_t byte_size(DType dtype);
bool is_floating(DType dtype);
bool is_complex(DType dtype);
/// The type of that name, or nothing.
std::optional<DType> dtype_from_name(std::string_view name);

/// Kind of device. `other` has its name in the table Device::other_name of the text form.
enum class DeviceKind : uint8_t { cpu, cuda, meta, other };

/// A device. The index is -1 for "the current one" and for devices without an index.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int16_t index = -1;
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0".
std::string to_string(Device device);
std::optional<Device> device_from_string(std::string_view text);

}  // namespace antegrad
