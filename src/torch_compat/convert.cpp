#include "torch_compat/convert.h"

#include <antegrad/error.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace antegrad::torch_compat {
namespace {

constexpr std::pair<at::ScalarType, DType> kDtypes[] = {
    {at::kHalf, DType::f16},
    {at::kBFloat16, DType::bf16},
    {at::kFloat, DType::f32},
    {at::kDouble, DType::f64},
    {at::kFloat8_e4m3fn, DType::f8e4m3fn},
    {at::kFloat8_e5m2, DType::f8e5m2},
    {at::kFloat8_e4m3fnuz, DType::f8e4m3fnuz},
    {at::kFloat8_e5m2fnuz, DType::f8e5m2fnuz},
    {at::kChar, DType::i8},
    {at::kShort, DType::i16},
    {at::kInt, DType::i32},
    {at::kLong, DType::i64},
    {at::kByte, DType::u8},
    {at::kUInt16, DType::u16},
    {at::kUInt32, DType::u32},
    {at::kUInt64, DType::u64},
    {at::kBool, DType::boolean},
    {at::kComplexHalf, DType::c32},
    {at::kComplexFloat, DType::c64},
    {at::kComplexDouble, DType::c128},
};

constexpr std::pair<at::Layout, const char*> kLayouts[] = {
    {at::kStrided, "strided"},      {at::kSparse, "sparse"},        {at::kSparseCsr, "sparse_csr"},
    {at::kMkldnn, "mkldnn"},        {at::kSparseCsc, "sparse_csc"}, {at::kSparseBsr, "sparse_bsr"},
    {at::kSparseBsc, "sparse_bsc"}, {at::kJagged, "jagged"},
};

constexpr std::pair<at::MemoryFormat, const char*> kFormats[] = {
    {at::MemoryFormat::Contiguous, "contiguous"},
    {at::MemoryFormat::Preserve, "preserve"},
    {at::MemoryFormat::ChannelsLast, "channels_last"},
    {at::MemoryFormat::ChannelsLast3d, "channels_last_3d"},
};

// The tables above are pairs; one lookup works in both directions.
template <class Table, class Key>
auto find_second(const Table& table, const Key& key) {
  for (const auto& [first, second] : table) {
    if (first == key) return std::optional(second);
  }
  return std::optional<std::decay_t<decltype(table[0].second)>>();
}
template <class Table, class Key>
auto find_first(const Table& table, const Key& key) {
  for (const auto& [first, second] : table) {
    if (second == key) return std::optional(first);
  }
  return std::optional<std::decay_t<decltype(table[0].first)>>();
}

}  // namespace

DType to_dtype(at::ScalarType type) {
  if (const auto found = find_second(kDtypes, type)) return *found;
  throw TensorKindError("", {"floating, integer, boolean or complex tensors",
                             std::string("a tensor of type ") + at::toString(type),
                             "convert it before the compiled region"});
}

at::ScalarType to_scalar_type(DType dtype) {
  const auto found = find_first(kDtypes, dtype);
  AG_CHECK(found, "dtype without a libtorch name");
  return *found;
}

Device to_device(c10::Device device) {
  switch (device.type()) {
    case c10::DeviceType::CPU: return {DeviceKind::cpu, -1};
    case c10::DeviceType::CUDA: return {DeviceKind::cuda, device.index()};
    case c10::DeviceType::Meta: return {DeviceKind::meta, -1};
    default:
      throw CaptureError("", {"tensors on cpu or cuda", "a tensor on " + device.str(),
                              "move the computation to a covered device, or keep it outside"});
  }
}

c10::Device with_index(c10::Device device) {
  if (device.has_index() || !device.is_cuda() || !c10::impl::hasDeviceGuardImpl(device.type())) {
    return device;
  }
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

c10::Device to_c10_device(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu: return c10::Device(c10::DeviceType::CPU);
    case DeviceKind::cuda:
      return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.index));
    case DeviceKind::meta: return c10::Device(c10::DeviceType::Meta);
    case DeviceKind::other: break;
  }
  throw InternalError("a graph with a device that libtorch does not know");
}

std::string to_op_name(const c10::OperatorName& name) {
  return name.name + "." + (name.overload_name.empty() ? "default" : name.overload_name);
}

c10::OperatorName from_op_name(const std::string& name) {
  const auto dot = name.rfind('.');
  AG_CHECK(dot != std::string::npos, name);
  auto overload = name.substr(dot + 1);
  if (overload == "default") overload.clear();
  return {name.substr(0, dot), overload};
}

std::string to_name(at::Layout layout) {
  const auto found = find_second(kLayouts, layout);
  AG_CHECK(found, "layout without a name");
  return *found;
}
std::string to_name(at::MemoryFormat format) {
  const auto found = find_second(kFormats, format);
  AG_CHECK(found, "memory format without a name");
  return *found;
}
at::Layout layout_from_name(const std::string& name) {
  const auto found = find_first(kLayouts, name);
  AG_CHECK(found, name);
  return *found;
}
at::MemoryFormat memory_format_from_name(const std::string& name) {
  const auto found = find_first(kFormats, name);
  AG_CHECK(found, name);
  return *found;
}

std::vector<int64_t> to_ints(const Shape& shape) {
  std::vector<int64_t> ints;
  ints.reserve(shape.size());
  for (const auto& expr : shape) ints.push_back(expr.constant());
  return ints;
}

}  // namespace antegrad::torch_compat
