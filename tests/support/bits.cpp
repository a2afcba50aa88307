#include "support/bits.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <cstring>

namespace antegrad::testing {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

AssertionResult same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) {
    return AssertionFailure() << "defined: " << a.defined() << " against " << b.defined();
  }
  if (!a.defined()) return AssertionSuccess();
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
    return AssertionFailure() << a.scalar_type() << a.sizes() << " against " << b.scalar_type()
                              << b.sizes();
  }
  const auto x = a.detach().cpu().contiguous();
  const auto y = b.detach().cpu().contiguous();
  if (x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0) {
    return AssertionSuccess();
  }
  const auto wide = x.is_complex() ? at::kComplexDouble : at::kDouble;
  return AssertionFailure() << "bits differ; largest difference "
                            << (x.to(wide) - y.to(wide)).abs().max().item<double>();
}

AssertionResult same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) {
    return AssertionFailure() << a.size() << " tensors against " << b.size();
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (auto result = same_bits(a[i], b[i]); !result) {
      return AssertionFailure() << "tensor " << i << ": " << result.message();
    }
  }
  return AssertionSuccess();
}

AssertionResult same_numbers(const at::Tensor& a, const at::Tensor& b) {
  auto bits = same_bits(a, b);
  if (bits || !a.defined() || !b.defined() || a.scalar_type() != b.scalar_type() ||
      a.sizes() != b.sizes()) {
    return bits;
  }
  const auto x = (a.is_complex() ? at::view_as_real(a) : a).detach();
  const auto y = (b.is_complex() ? at::view_as_real(b) : b).detach();
  if (!x.is_floating_point() || !at::equal(x.isnan(), y.isnan())) return bits;
  return same_bits(x.masked_fill(x.isnan(), 0), y.masked_fill(y.isnan(), 0));
}

at::Tensor generator_state(c10::Device device) {
  return at::globalContext().defaultGenerator(device).get_state();
}
void set_generator_state(const at::Tensor& state, c10::Device device) {
  auto generator = at::globalContext().defaultGenerator(device);
  generator.set_state(state);
}

std::vector<c10::Device> devices() {
  std::vector<c10::Device> found = {at::kCPU};
  if (at::hasCUDA() && at::globalContext().hasCUDA() &&
      at::detail::getCUDAHooks().deviceCount() > 0) {
    found.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(0));
  }
  return found;
}

std::vector<at::Tensor> clone_all(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> clones;
  for (const auto& t : tensors) {
    clones.push_back(t.defined() ? t.detach().clone().set_requires_grad(t.requires_grad()) : t);
  }
  return clones;
}

}  // namespace antegrad::testing
