// antegrad's kernels for operators of libtorch whose own kernels cannot run in a program.

#include <ATen/ops/alias.h>
#include <ATen/ops/as_strided_scatter.h>
#include <ATen/ops/rrelu_with_noise.h>
#include <torch/library.h>

namespace antegrad::ops {
namespace {

// libtorch asserts that a tensor that requires grad is contiguous, although this does not matter
// below autograd. An alias made below autograd does not require grad.
at::Tensor as_strided_scatter(const at::Tensor& self, const at::Tensor& src, at::IntArrayRef sizes,
                              at::IntArrayRef strides, std::optional<int64_t> offset) {
  return at::as_strided_scatter(self.requires_grad() ? at::alias(self) : self, src, sizes, strides,
                                offset);
}

// libtorch's kernel gives the result the layout of the input, but rrelu() makes it contiguous.
std::tuple<at::Tensor, at::Tensor> rrelu_with_noise(const at::Tensor& self, const at::Tensor& noise,
                                                    const at::Scalar& lower,
                                                    const at::Scalar& upper, bool training,
                                                    std::optional<at::Generator> generator) {
  auto written = noise.clone();
  auto result = at::rrelu_with_noise(self, written, lower, upper, training, std::move(generator));
  return {std::move(result), std::move(written)};
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def(
      "as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? "
      "storage_offset=None) "
      "-> Tensor");
  library.impl("as_strided_scatter", c10::DispatchKey::CompositeExplicitAutograd,
               as_strided_scatter);
  library.def(
      "rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower, Scalar upper, "
      "bool training, Generator? generator=None) -> (Tensor, Tensor)");
  library.impl("rrelu_with_noise_functional", c10::DispatchKey::CompositeExplicitAutograd,
               rrelu_with_noise);
}

}  // namespace
}  // namespace antegrad::ops
