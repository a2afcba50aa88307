#include "check/tensor_bits.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/view_as_real.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

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

// Any NaN equals any other.
at::Tensor without_nans(at::Tensor differ, const at::Tensor& x, const at::Tensor& y) {
  if (!x.is_floating_point()) return differ;
  const auto is_nan = [](const at::Tensor& t) {
    return at::isnan(t.element_size() == 1 ? t.to(at::kFloat) : t);
  };
  return differ.logical_and_(is_nan(x).logical_and(is_nan(y)).logical_not());
}

// As differing(), on another device than the CPU.
at::Tensor differing_there(const at::Tensor& x, const at::Tensor& y) {
  if (x.is_complex()) return differing_there(at::view_as_real(x), at::view_as_real(y)).any(-1);
  constexpr at::ScalarType kBits[] = {at::kChar, at::kShort, at::kInt, at::kLong};
  const auto bits = kBits[std::countr_zero(static_cast<uint64_t>(x.element_size()))];
  return without_nans(x.view(bits).ne(y.view(bits)), x, y);
}

// Which elements of contiguous tensors differ, as bools; undefined if none does.
at::Tensor differing(const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() == 0) return {};
  if (!x.is_cpu()) return differing_there(x, y);
  if (std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0) return {};
  if (x.is_complex()) {
    const auto parts = differing(at::view_as_real(x), at::view_as_real(y));
    return parts.defined() ? parts.any(-1) : parts;
  }
  auto differ = at::empty(x.sizes(), at::kBool);
  const auto bytes = x.element_size();
  const auto* a = static_cast<const char*>(x.const_data_ptr());
  const auto* b = static_cast<const char*>(y.const_data_ptr());
  auto* bools = differ.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < x.numel(); ++i, a += bytes, b += bytes) {
    bools[i] = std::memcmp(a, b, static_cast<size_t>(bytes)) != 0;
  }
  return without_nans(std::move(differ), x, y);
}

int64_t count(const at::Tensor& bools) { return bools.defined() ? bools.sum().item<int64_t>() : 0; }

}  // namespace

int64_t count_differing(const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() == 0) return 0;
  const bool as_they_lie =
      x.is_cpu() && x.strides() == y.strides() && x.is_non_overlapping_and_dense();
  if (as_they_lie && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0) return 0;
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
