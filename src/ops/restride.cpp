// antegrad::restride(Tensor self, int[] strides) -> Tensor: a copy with these strides.

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/own_kernels.h"

namespace antegrad::ops {
namespace {

// Whether rows of the copy are columns of `from`, which lie one behind the other.
bool is_transposed(const at::Tensor& from, at::IntArrayRef strides) {
  return from.dim() == 2 && from.scalar_type() == at::kFloat && from.device().is_cpu() &&
         !from.is_neg() && from.stride(0) == 1 && from.stride(1) >= from.size(0) &&
         strides[1] == 1 && strides[0] == from.size(1);
}

// In squares that stay in the nearest cache, each part by a thread. libtorch's copy has one thread.
void transpose(float* to, const at::Tensor& from) {
  constexpr int64_t kSquare = 32;
  const int64_t rows = from.size(0), columns = from.size(1), stride = from.stride(1);
  const auto* source = from.const_data_ptr<float>();
  const int64_t bands = (rows + kSquare - 1) / kSquare;
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, columns * kSquare));
  at::parallel_for(0, bands, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first * kSquare; row < std::min(last * kSquare, rows); row += kSquare) {
      const int64_t height = std::min(kSquare, rows - row);
      for (int64_t column = 0; column < columns; column += kSquare) {
        const int64_t width = std::min(kSquare, columns - column);
        float square[kSquare][kSquare];
        for (int64_t c = 0; c < width; ++c) {
          std::copy_n(source + (column + c) * stride + row, height, square[c]);
        }
        for (int64_t r = 0; r < height; ++r) {
          float* line = to + (row + r) * columns + column;
          for (int64_t c = 0; c < width; ++c) line[c] = square[c][r];
        }
      }
    }
  });
}

at::Tensor restride(const at::Tensor& self, at::IntArrayRef strides) {
  auto made = at::empty_strided(self.sizes(), strides, self.options());
  if (is_transposed(self, strides)) {
    transpose(made.mutable_data_ptr<float>(), self);
    return made;
  }
  return made.copy_(self);
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def("restride(Tensor self, int[] strides) -> Tensor");
  library.impl("restride", c10::DispatchKey::CompositeExplicitAutograd, restride);
}

}  // namespace

const c10::OperatorHandle& restride_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("antegrad::restride", "");
  return op;
}

}  // namespace antegrad::ops
