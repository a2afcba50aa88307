#include "support/custom_ops.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <sstream>

namespace antegrad::testing {

Journal& Journal::instance() {
  static Journal journal;
  return journal;
}

void Journal::add(std::string line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
}

std::vector<std::string> Journal::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

c10::OperatorHandle find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow((std::string("agtest::") + name).c_str(),
                                                        "");
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using List = std::vector<at::Tensor>;

// ---- operators that write ------------------------------------------------------------------------

at::Tensor& scale_(at::Tensor& self, double by) { return self.mul_(by); }

at::Tensor accumulate(const at::Tensor& x, at::Tensor& total) {
  total.add_(x);
  return x * total;
}
at::Tensor accumulate_meta(const at::Tensor& x, at::Tensor& /*total*/) { return at::empty_like(x); }

void fill_all(at::TensorList tensors, double value) {
  for (const auto& t : tensors) t.fill_(value);
}

at::Tensor maybe_add_(const at::Tensor& x, const std::optional<at::Tensor>& total) {
  if (total && total->defined()) total->add_(x);
  return x + 1;
}

std::tuple<at::Tensor, at::Tensor> swap_(at::Tensor x, at::Tensor y) {
  const auto copy = x.clone();
  x.copy_(y);
  y.copy_(copy);
  return {x, y};
}

// The second sees the first's write when both are the same tensor.
void axpy_(at::Tensor& y, const at::Tensor& x) {
  y.mul_(2);
  y.add_(x);
}

at::Tensor& grow_(at::Tensor& self) { return self.resize_({self.numel() + 1}).fill_(1); }
at::Tensor first_row(const at::Tensor& self) { return self.select(0, 0); }

// ---- with autograd -------------------------------------------------------------------------------

struct ScaleInPlace : torch::autograd::Function<ScaleInPlace> {
  static at::Tensor forward(AutogradContext* context, at::Tensor self, double by) {
    context->mark_dirty({self});
    context->saved_data["by"] = by;
    const at::AutoDispatchBelowADInplaceOrView below;
    call_op<at::Tensor&(at::Tensor&, double)>("scale_", self, by);
    return self;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {grads[0] * context->saved_data["by"].toDouble(), at::Tensor()};
  }
};

at::Tensor& scale_autograd_(at::Tensor& self, double by) {
  ScaleInPlace::apply(self, by);
  return self;
}

}  // namespace
}  // namespace antegrad::testing

TORCH_LIBRARY(agtest, m) {
  using namespace antegrad::testing;
  m.def("scale_(Tensor(a!) self, float by) -> Tensor(a!)");
  m.def("scale_versioned_(Tensor(a!) self, float by) -> Tensor(a!)");
  m.def("scale_autograd_(Tensor(a!) self, float by) -> Tensor(a!)");
  m.def("accumulate(Tensor x, Tensor(a!) total) -> Tensor");
  m.def("accumulate_meta(Tensor x, Tensor(a!) total) -> Tensor");
  m.def("fill_all(Tensor(a!)[] tensors, float value) -> ()");
  m.def("maybe_add_(Tensor x, Tensor(a!)? total) -> Tensor");
  m.def("swap_(Tensor(a!) x, Tensor(b!) y) -> (Tensor(a!), Tensor(b!))");
  m.def("axpy_(Tensor(a!) y, Tensor x) -> ()");
  m.def("grow_(Tensor(a!) self) -> Tensor(a!)");
  m.def("first_row(Tensor(a) self) -> Tensor(a)");
}

TORCH_LIBRARY_IMPL(agtest, CPU, m) {
  using namespace antegrad::testing;
  m.impl("scale_", &scale_);
  m.impl("scale_versioned_", &scale_);
  m.impl("accumulate", &accumulate);
  m.impl("accumulate_meta", &accumulate);
  m.impl("fill_all", &fill_all);
  m.impl("maybe_add_", &maybe_add_);
  m.impl("swap_", &swap_);
  m.impl("axpy_", &axpy_);
  m.impl("grow_", &grow_);
  m.impl("first_row", &first_row);
}

TORCH_LIBRARY_IMPL(agtest, Meta, m) {
  m.impl("accumulate_meta", &antegrad::testing::accumulate_meta);
}

TORCH_LIBRARY_IMPL(agtest, ADInplaceOrView, m) {
  m.impl("scale_versioned_", torch::autograd::autogradNotImplementedInplaceOrViewFallback());
}

TORCH_LIBRARY_IMPL(agtest, Autograd, m) {
  m.impl("scale_autograd_", &antegrad::testing::scale_autograd_);
}
