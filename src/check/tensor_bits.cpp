#include "check/tensor_bits.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>

#include <cstring>

#include "torch_compat/tensor_metadata.h"

namespace antegrad::check {
namespace {

std::string text_of(const at::Tensor& element) {
  const auto value = element.item();
  if (value.isBoolean()) return value.toBool() ? "true" : "false";
  if (value.isIntegral(/*includeBool=*/false)) return fmt::format("{}", value.toLong());
  if (value.isComplex()) {
    const auto z = value.toComplexDouble();
    return fmt::format("{}{:+}i", z.real(), z.imag());
  }
  return fmt::format("{}", value.toDouble());
}

}  // namespace

std::string bit_difference(const at::Tensor& was, const at::Tensor& is) {
  auto difference =
      torch_compat::TensorMetadata::of(was).difference(is, torch_compat::Match::values);
  if (!difference.empty() || !was.defined()) return difference;
  const at::NoGradGuard no_grad;
  const auto x = was.detach().cpu().contiguous();
  const auto y = is.detach().cpu().contiguous();
  const auto bytes = static_cast<size_t>(x.element_size());
  const auto* a = static_cast<const char*>(x.const_data_ptr());
  const auto* b = static_cast<const char*>(y.const_data_ptr());
  int64_t differing = 0;
  for (int64_t i = 0; i < x.numel(); ++i, a += bytes, b += bytes) {
    differing += std::memcmp(a, b, bytes) != 0;
  }
  if (differing == 0) return "";
  if (x.numel() == 1) return fmt::format("was {}, is {}", text_of(x), text_of(y));
  const auto wide = x.is_complex() ? at::kComplexDouble : at::kDouble;
  const auto largest = at::max(at::abs(at::sub(x.to(wide), y.to(wide))));
  return fmt::format("{} of {} elements differ, by up to {}", differing, x.numel(),
                     largest.item<double>());
}

}  // namespace antegrad::check
