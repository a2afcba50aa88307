#include "runtime/failing_ops.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace antegrad::testing {

std::exception_ptr Fault::forward;
std::exception_ptr Fault::backward;

namespace {

std::atomic<int64_t> runs = 0;

at::Tensor forward_kernel(const at::Tensor& x) {
  ++runs;
  if (Fault::forward) std::rethrow_exception(Fault::forward);
  return x * 2;
}
at::Tensor backward_kernel(const at::Tensor& tangent) {
  ++runs;
  if (Fault::backward) std::rethrow_exception(Fault::backward);
  return tangent * 2;
}
at::Tensor like(const at::Tensor& x) { return at::empty_like(x); }

}  // namespace

int64_t kernel_runs() { return runs; }

TORCH_LIBRARY(agfail, m) {
  m.def("doubled(Tensor x) -> Tensor");
  m.def("doubled_backward(Tensor tangent) -> Tensor");
}
TORCH_LIBRARY_IMPL(agfail, CPU, m) {
  m.impl("doubled", &forward_kernel);
  m.impl("doubled_backward", &backward_kernel);
}
TORCH_LIBRARY_IMPL(agfail, Meta, m) {
  m.impl("doubled", &like);
  m.impl("doubled_backward", &like);
}
TORCH_LIBRARY_IMPL(agfail, Autograd, m) { m.impl("doubled", &detail::differentiate); }

}  // namespace antegrad::testing
