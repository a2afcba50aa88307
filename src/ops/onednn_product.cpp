// antegrad::onednn_product(Tensor a, Tensor b, Tensor? bias) -> Tensor: the product of two matrices
// of float32 as oneDNN computes it, with a bias for each column.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace antegrad::ops {
namespace {

// libtorch's own way to oneDNN: a linear layer, whose weight is the second matrix transposed.
at::Tensor onednn_product(const at::Tensor& a, const at::Tensor& b,
                          const std::optional<at::Tensor>& bias) {
  using Linear = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            std::string_view, c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>);
  static const auto linear = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                                 .typed<Linear>();
  const c10::List<std::optional<at::Scalar>> no_scalars;
  return linear.call(a, b.t(), bias, "none", no_scalars, "");
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def("onednn_product(Tensor a, Tensor b, Tensor? bias) -> Tensor");
  library.impl("onednn_product", c10::DispatchKey::CompositeExplicitAutograd, onednn_product);
}

}  // namespace
}  // namespace antegrad::ops
