#include "torch_compat/precision.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "torch_compat/private_member.h"

namespace antegrad::torch_compat {

using Float32Key = std::pair<at::Float32Backend, at::Float32Op>;
using Float32Table = std::unordered_map<Float32Key, at::Float32Precision, c10::hash<Float32Key>>;

using ContextFloat32Table = MemberTag<struct OfContextFloat32Table, Float32Table, at::Context>;
using ContextMatmulPrecision =
    MemberTag<struct OfContextMatmulPrecision, at::Float32MatmulPrecision, at::Context>;
using ContextTf32Cudnn = MemberTag<struct OfContextTf32Cudnn, bool, at::Context>;
using ContextTf32Onednn = MemberTag<struct OfContextTf32Onednn, bool, at::Context>;
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

int depthwise_kernel(const at::Context& context) {
  const auto ask = [](const auto& any_version) {
    if constexpr (requires { any_version.cudnnDepthwiseKernel(); }) {
      return static_cast<int>(any_version.cudnnDepthwiseKernel());
    } else {
      return 0;
    }
  };
  return ask(context);
}

}  // namespace antegrad::torch_compat
