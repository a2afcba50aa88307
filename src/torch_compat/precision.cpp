#include "torch_compat/precision.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "torch_compat/private_member.h"

namespace antegrad::torch_compat {

using Float32Key = std::pair<at::Float32Backend, at::Float32Op>;
using Float32Table = std::unordered_map<Float32Key, at::Float32Precision, c10::hash<Float32Key>>;

struct ContextFloat32Table : MemberTag<Float32Table, at::Context> {
  friend constexpr Member expose(ContextFloat32Table);
};
struct ContextMatmulPrecision : MemberTag<at::Float32MatmulPrecision, at::Context> {
  friend constexpr Member expose(ContextMatmulPrecision);
};
struct ContextTf32Cudnn : MemberTag<bool, at::Context> {
  friend constexpr Member expose(ContextTf32Cudnn);
};
struct ContextTf32Onednn : MemberTag<bool, at::Context> {
  friend constexpr Member expose(ContextTf32Onednn);
};
template struct Expose<ContextFloat32Table, &at::Context::fp32_precision>;
template struct Expose<ContextMatmulPrecision, &at::Context::float32_matmul_precision>;
template struct Expose<ContextTf32Cudnn, &at::Context::allow_tf32_cudnn>;
template struct Expose<ContextTf32Onednn, &at::Context::allow_tf32_onednn>;

namespace {

using Backend = at::Float32Backend;
using Operator = at::Float32Op;

constexpr Float32Key kSettings[] = {
    {Backend::GENERIC, Operator::ALL},   {Backend::MKLDNN, Operator::ALL},
    {Backend::MKLDNN, Operator::CONV},   {Backend::MKLDNN, Operator::RNN},
    {Backend::MKLDNN, Operator::MATMUL}, {Backend::CUDA, Operator::ALL},
    {Backend::CUDA, Operator::CONV},     {Backend::CUDA, Operator::RNN},
    {Backend::CUDA, Operator::MATMUL},
};
using Addresses = std::array<const at::Float32Precision*, std::size(kSettings)>;

// The table has an entry for each setting from the start, and entries never move.
Addresses find_settings(const at::Context& context) {
  Addresses addresses{};
  const auto& table = context.*expose(ContextFloat32Table());
  for (size_t i = 0; i < addresses.size(); ++i) addresses[i] = &table.at(kSettings[i]);
  return addresses;
}

}  // namespace

uint64_t float32_precision_switches(const at::Context& context) {
  static const auto settings = find_settings(at::globalContext());
  uint64_t packed = 0;
  const auto add = [&packed](auto value) { packed = packed << 4U | static_cast<uint64_t>(value); };
  for (const auto* setting : settings) add(*setting);
  add(context.*expose(ContextMatmulPrecision()));
  add(context.*expose(ContextTf32Cudnn()));
  add(context.*expose(ContextTf32Onednn()));
  return packed;
}

namespace {

template <class Context>
int depthwise_kernel_of(const Context& context) {
  if constexpr (requires { context.cudnnDepthwiseKernel(); }) {
    return static_cast<int>(context.cudnnDepthwiseKernel());
  } else {
    return 0;
  }
}

}  // namespace

int depthwise_kernel(const at::Context& context) { return depthwise_kernel_of(context); }

}  // namespace antegrad::torch_compat
