#include <ATen/ops/tensor.h>
#include <antegrad/inside.h>

#include "capture/outside.h"
#include "capture/tracer.h"

namespace antegrad {
namespace {

template <class T>
at::Tensor constant_of(const std::vector<T>& values) {
  return constant([&] { return at::tensor(values); });
}

}  // namespace

at::Tensor constant(const std::function<at::Tensor()>& make) {
  auto* tracer = capture::Tracer::current();
  if (tracer == nullptr) return make();
  at::Tensor made;
  {
    const capture::OutsideCapture outside;
    made = make();
  }
  return tracer->lift_constant(made);
}

at::Tensor constant(const std::vector<float>& values) { return constant_of(values); }
at::Tensor constant(const std::vector<double>& values) { return constant_of(values); }
at::Tensor constant(const std::vector<int64_t>& values) { return constant_of(values); }

}  // namespace antegrad
