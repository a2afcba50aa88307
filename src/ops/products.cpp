// Products of two matrices with a bias for each column, in one call. Their rows are those of a
// tensor with any number of dimensions, `sizes`.
//
// antegrad::onednn_product(Tensor a, Tensor b, Tensor? bias, int[] sizes) -> Tensor: of float32 as
// oneDNN computes it.
// antegrad::biased_product(Tensor a, Tensor b, Tensor bias, int[] sizes) -> Tensor: by addmm.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace antegrad::ops {
namespace {

// libtorch's own way to oneDNN: a linear layer, whose weight is the second matrix transposed.
at::Tensor onednn_product(const at::Tensor& a, const at::Tensor& b,
                          const std::optional<at::Tensor>& bias, at::IntArrayRef sizes) {
  using Linear = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            std::string_view, c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>);
  static const auto linear = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                                 .typed<Linear>();
  const c10::List<std::optional<at::Scalar>> no_scalars;
  return linear.call(a, b.t(), bias, "none", no_scalars, "").view(sizes);
}

at::Tensor biased_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                          at::IntArrayRef sizes) {
  auto result = at::empty(sizes, a.options());
  auto rows = result.view({a.size(0), b.size(1)});
  at::addmm_out(rows, bias, a, b);
  return result;
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def("onednn_product(Tensor a, Tensor b, Tensor? bias, int[] sizes) -> Tensor");
  library.def("biased_product(Tensor a, Tensor b, Tensor bias, int[] sizes) -> Tensor");
  library.impl("onednn_product", c10::DispatchKey::CompositeExplicitAutograd, onednn_product);
  library.impl("biased_product", c10::DispatchKey::CompositeExplicitAutograd, biased_product);
}

}  // namespace
}  // namespace antegrad::ops
