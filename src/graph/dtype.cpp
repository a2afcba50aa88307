#include "graph/dtype.h"

#include <charconv>

namespace antegrad {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int64_t bytes;
  bool floating;
  bool complex;
};

constexpr DTypeRow kDTypes[] = {
    {DType::f16, "f16", 2, true, false},
    {DType::bf16, "bf16", 2, true, false},
    {DType::f32, "f32", 4, true, false},
    {DType::f64, "f64", 8, true, false},
    {DType::f8e4m3fn, "f8e4m3fn", 1, true, false},
    {DType::f8e5m2, "f8e5m2", 1, true, false},
    {DType::f8e4m3fnuz, "f8e4m3fnuz", 1, true, false},
    {DType::f8e5m2fnuz, "f8e5m2fnuz", 1, true, false},
    {DType::i8, "i8", 1, false, false},
    {DType::i16, "i16", 2, false, false},
    {DType::i32, "i32", 4, false, false},
    {DType::i64, "i64", 8, false, false},
    {DType::u8, "u8", 1, false, false},
    {DType::u16, "u16", 2, false, false},
    {DType::u32, "u32", 4, false, false},
    {DType::u64, "u64", 8, false, false},
    {DType::boolean, "bool", 1, false, false},
    {DType::c32, "c32", 4, false, true},
    {DType::c64, "c64", 8, false, true},
    {DType::c128, "c128", 16, false, true},
};

constexpr bool rows_follow_the_enum() {
  for (size_t i = 0; i < std::size(kDTypes); ++i) {
    if (static_cast<size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

const DTypeRow& row(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

constexpr std::string_view kDeviceKinds[] = {"cpu", "cuda", "meta", "other"};

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }
int64_t byte_size(DType dtype) { return row(dtype).bytes; }
bool is_floating(DType dtype) { return row(dtype).floating; }
bool is_complex(DType dtype) { return row(dtype).complex; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeRow& candidate : kDTypes) {
    if (candidate.name == name) return candidate.dtype;
  }
  return std::nullopt;
}

std::string to_string(Device device) {
  std::string text(kDeviceKinds[static_cast<size_t>(device.kind)]);
  if (device.index >= 0) text += ":" + std::to_string(device.index);
  return text;
}

std::optional<Device> device_from_string(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  for (size_t i = 0; i < std::size(kDeviceKinds); ++i) {
    if (kDeviceKinds[i] != kind) continue;
    Device device{static_cast<DeviceKind>(i), -1};
    if (colon == std::string_view::npos) return device;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, device.index);
    if (error != std::errc() || stop != end || device.index < 0) return std::nullopt;
    return device;
  }
  return std::nullopt;
}

}  // namespace antegrad
