#include "support/random_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace antegrad::testing {

int64_t RandomTensors::integer(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

bool RandomTensors::chance(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

Shape RandomTensors::full_shape(int64_t min_rank, int64_t max_rank) {
  Shape shape(static_cast<size_t>(integer(min_rank, max_rank)));
  for (int64_t& size : shape) size = pick<int64_t>({1, 2, 2, 3, 3, 4});
  return shape;
}

Shape RandomTensors::shape(int64_t min_rank, int64_t max_rank) {
  Shape shape = full_shape(min_rank, max_rank);
  if (!shape.empty() && chance(0.06)) shape[integer(0, shape.size() - 1)] = 0;
  return shape;
}

Shape RandomTensors::narrowed(Shape shape) {
  if (chance(0.5)) return shape;
  for (int64_t& size : shape) {
    if (chance(0.35)) size = 1;
  }
  if (chance(0.4)) shape.erase(shape.begin(), shape.begin() + integer(0, shape.size()));
  return shape;
}

at::ScalarType RandomTensors::dtype() {
  if (chance(0.12)) return pick({at::kHalf, at::kInt, at::kByte, at::kComplexFloat});
  return pick(
      {at::kFloat, at::kFloat, at::kFloat, at::kDouble, at::kBFloat16, at::kLong, at::kBool});
}

at::ScalarType RandomTensors::floating() {
  if (chance(0.1)) return at::kHalf;
  return pick({at::kFloat, at::kFloat, at::kDouble, at::kBFloat16});
}

at::Scalar RandomTensors::number() {
  switch (integer(0, 3)) {
    case 0: return at::Scalar(integer(1, 3));
    case 1: return at::Scalar(true);
    default: return at::Scalar(0.5);
  }
}

at::Tensor RandomTensors::contiguous(const Shape& shape, at::ScalarType dtype) {
  const auto options = at::TensorOptions().device(device_).dtype(dtype);
  if (at::isFloatingType(dtype) || at::isComplexType(dtype))
    return at::rand(shape, options).mul_(0.8).add_(0.1);
  if (dtype == at::kBool) return at::randint(0, 2, shape, options);
  return at::randint(1, 4, shape, options);
}

at::Tensor RandomTensors::tensor(const Shape& shape, at::ScalarType dtype) {
  return relaid(shape, [&](const Shape& s) { return contiguous(s, dtype); });
}

at::Tensor RandomTensors::indices(const Shape& shape, int64_t limit) {
  return relaid(shape, [&](const Shape& s) {
    return at::randint(0, std::max<int64_t>(limit, 1), s,
                       at::TensorOptions().device(device_).dtype(at::kLong));
  });
}

at::Tensor RandomTensors::wrapped_number() {
  at::Tensor t =
      at::scalar_tensor(2, at::TensorOptions().dtype(pick({at::kDouble, at::kLong, at::kBool})));
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

at::Tensor RandomTensors::relaid(const Shape& shape,
                                 const std::function<at::Tensor(const Shape&)>& make) {
  const auto rank = static_cast<int64_t>(shape.size());
  switch (rank == 0 ? 0 : integer(0, 9)) {
    case 0:
    case 1: return make(shape);
    case 2:  // permuted
    case 3: {
      std::vector<int64_t> order(rank), inverse(rank);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      Shape base(rank);
      for (int64_t i = 0; i < rank; ++i) {
        base[i] = shape[order[i]];
        inverse[order[i]] = i;
      }
      return make(base).permute(inverse);
    }
    case 4: {  // a slice of a larger tensor, possibly with steps
      Shape base = shape;
      const int64_t dim = integer(0, rank - 1), step = integer(1, 2), start = integer(0, 2);
      base[dim] = start + shape[dim] * step;
      return make(base).slice(dim, start, base[dim], step);
    }
    case 5: {  // expanded
      Shape base = shape;
      for (int64_t& size : base) {
        if (chance(0.5)) size = 1;
      }
      return make(base).expand(shape);
    }
    case 6: {  // odd strides where they have no effect
      at::Tensor t = make(shape);
      Shape strides = t.strides().vec();
      for (int64_t i = 0; i < rank; ++i) {
        if (shape[i] == 1) strides[i] = integer(0, 7);
      }
      return t.as_strided(shape, strides);
    }
    case 7: {  // offset
      Shape base = shape;
      base[0] += 1;
      return make(base).narrow(0, 1, shape[0]);
    }
    case 8: {  // permuted and sliced
      Shape base = shape;
      std::reverse(base.begin(), base.end());
      base.back() += 1;
      std::vector<int64_t> order(rank);
      std::iota(order.rbegin(), order.rend(), 0);
      return make(base).narrow(rank - 1, 0, shape[0]).permute(order);
    }
    default:
      if (rank == 4) return make(shape).contiguous(at::MemoryFormat::ChannelsLast);
      if (rank == 5) return make(shape).contiguous(at::MemoryFormat::ChannelsLast3d);
      return make(shape);
  }
}

}  // namespace antegrad::testing
