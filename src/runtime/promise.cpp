#include "runtime/promise.h"

#include <antegrad/error.h>

#include <sstream>

#include "torch_compat/convert.h"

namespace antegrad::runtime {
namespace {

bool same_strides(const Promise& promise, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  for (size_t d = 0; d < promise.sizes.size(); ++d) {
    if (promise.sizes[d] > 1 && tensor.stride(static_cast<int64_t>(d)) != promise.strides[d]) {
      return false;
    }
  }
  return true;
}

std::string describe(bool defined, at::ScalarType dtype, c10::Device device, at::IntArrayRef sizes,
                     at::IntArrayRef strides) {
  if (!defined) return "an undefined tensor";
  std::ostringstream text;
  text << dtype << sizes << " with strides " << strides << " on " << device;
  return text.str();
}

}  // namespace

Promise::Promise(const TensorMeta& meta)
    : defined(true),
      dtype(torch_compat::to_scalar_type(meta.dtype)),
      device(torch_compat::to_c10_device(meta.device)),
      sizes(torch_compat::to_ints(meta.sizes)),
      strides(torch_compat::to_ints(meta.strides)) {}

bool is_kept(const Promise& promise, const at::Tensor& tensor) {
  return promise.defined == tensor.defined() &&
         (!promise.defined ||
          (tensor.scalar_type() == promise.dtype && tensor.device() == promise.device &&
           tensor.sizes().equals(promise.sizes) && same_strides(promise, tensor)));
}

void require_kept(const Promise& promise, const at::Tensor& tensor, const std::string& op) {
  if (is_kept(promise, tensor)) return;
  const auto found = tensor.defined() ? describe(true, tensor.scalar_type(), tensor.device(),
                                                 tensor.sizes(), tensor.strides())
                                      : describe(false, at::kFloat, at::kCPU, {}, {});
  throw CaptureError(
      op,
      {"from its Meta kernel, shape function or run on zeros " +
           describe(promise.defined, promise.dtype, promise.device, promise.sizes, promise.strides),
       found + " at the call",
       "correct the Meta kernel or shape function; an operator whose sizes depend on data needs "
       "the tag dynamic_output_shape"});
}

}  // namespace antegrad::runtime
