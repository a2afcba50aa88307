#include "check/tensor_bits.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/view_as_real.h>
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

// The integers with as many bytes.
at::ScalarType integers_of(int64_t bytes) {
  switch (bytes) {
    case 1: return at::kByte;
    case 2: return at::kShort;
    case 4: return at::kInt;
    default: return at::kLong;
  }
}

bool have_equal_bytes(const at::Tensor& x, const at::Tensor& y) {
  return x.is_cpu() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Which elements of contiguous tensors differ, as bools; undefined if none does, as far as that is
// known without asking a device.
at::Tensor differing(const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() == 0 || have_equal_bytes(x, y)) return {};
  if (x.is_complex()) {
    const auto parts = differing(at::view_as_real(x), at::view_as_real(y));
    return parts.defined() ? parts.any(-1) : parts;
  }
  const auto type = integers_of(x.element_size());
  const auto differ = x.view(type).ne(y.view(type));
  if (!x.is_floating_point()) return differ;
  const auto is_nan = [&](const at::Tensor& t) {
    return at::isnan(x.element_size() == 1 ? t.to(at::kFloat) : t);
  };
  return differ.logical_and_(is_nan(x).logical_and(is_nan(y)).logical_not());
}

int64_t count(const at::Tensor& bools) { return bools.defined() ? bools.sum().item<int64_t>() : 0; }

}  // namespace

int64_t count_differing(const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() == 0) return 0;
  const bool as_they_lie = x.strides() == y.strides() && x.is_non_overlapping_and_dense();
  if (as_they_lie && have_equal_bytes(x, y)) return 0;
  return count(differing(x.contiguous(), y.contiguous()));
}

std::string bit_difference(const at::Tensor& was, const at::Tensor& is) {
  auto difference =
      torch_compat::TensorMetadata::of(was).difference(is, torch_compat::Match::values);
  if (!difference.empty() || !was.defined()) return difference;
  const at::NoGradGuard no_grad;
  const auto x = was.detach().cpu().resolve_conj().resolve_neg().contiguous();
  const auto y = is.detach().cpu().resolve_conj().resolve_neg().contiguous();
  const auto differ = differing(x, y);
  const auto number = count(differ);
  if (number == 0) return "";
  if (x.numel() == 1) return fmt::format("was {}, is {}", text_of(x), text_of(y));
  const auto wide = x.is_complex() ? at::kComplexDouble : at::kDouble;
  const auto largest = (x.to(wide) - y.to(wide)).abs().masked_select(differ).max();
  return fmt::format("{} of {} elements differ, by up to {}", number, x.numel(),
                     largest.item<double>());
}

}  // namespace antegrad::check
