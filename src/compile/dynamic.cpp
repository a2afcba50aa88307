#include <antegrad/dynamic.h>

#include <ATen/ops/scalar_tensor.h>

namespace antegrad::detail {

at::Tensor scalar_tensor(bool value) { return at::scalar_tensor(value, at::kBool); }
at::Tensor scalar_tensor(int64_t value) { return at::scalar_tensor(value, at::kLong); }
at::Tensor scalar_tensor(double value) { return at::scalar_tensor(value, at::kDouble); }

}  // namespace antegrad::detail
