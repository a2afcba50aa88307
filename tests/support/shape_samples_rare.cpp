#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <filesystem>

#include "distributed/local_sum.h"
#include "support/shape_sample_parts.h"
#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

/// Tensors of one dtype that broadcast.
Arguments alike(R& r, at::ScalarType dtype) {
  const Shape shape = r.shape();
  return {r.tensor(r.narrowed(shape), dtype), r.tensor(shape, dtype)};
}

// ---- Distances ---------------------------------------------------------------------------------

/// Batches of rows with the same number of columns.
Arguments batches_of_rows(R& r, at::ScalarType dtype, bool one_batch) {
  const Shape outer = r.shape(0, 2);
  const int64_t columns = r.integer(1, 4);
  const auto batch = [&](const Shape& shape) {
    return r.tensor(joined(shape, {r.chance(0.1) ? 0 : r.integer(1, 3), columns}), dtype);
  };
  return {batch(outer), batch(one_batch ? outer : r.narrowed(outer))};
}

Arguments distances(R& r) {
  return joined(batches_of_rows(r, r.pick({at::kFloat, at::kDouble}), false),
                {r.pick({1.0, 2.0, 3.0}), c10::IValue()});
}

Arguments distances_backward(R& r) {
  const Arguments rows = batches_of_rows(r, r.pick({at::kFloat, at::kDouble}), true);
  const double p = r.pick({1.0, 2.0, 3.0});
  const at::Tensor out = at::_cdist_forward(rows[0].toTensor(), rows[1].toTensor(), p, {});
  return {gradient(r, out), rows[0], rows[1], p, out};
}

Arguments rows(R& r) {
  return {r.contiguous(r.full_shape(2, 2), r.pick({at::kFloat, at::kDouble})), 2.0};
}

Arguments rows_backward(R& r) {
  const Arguments a = rows(r);
  const at::Tensor out = at::_pdist_forward(a[0].toTensor(), 2.0);
  return {gradient(r, out), a[0], 2.0, out};
}

// ---- Indexing ----------------------------------------------------------------------------------

Arguments index_reduce(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(1, 4), r.floating());
  const int64_t dim = positive_dim(r, t.dim());
  Shape source = t.sizes().vec();
  source[dim] = r.integer(1, 3);
  return {t,
          dim,
          r.indices({source[dim]}, t.size(dim)),
          r.tensor(source, t.scalar_type()),
          r.pick<const char*>({"prod", "mean", "amax", "amin"}),
          r.chance(0.5)};
}

Arguments take(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(0, 4), r.dtype());
  return {t, r.indices(r.shape(0, 3), t.numel())};
}

Arguments put(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(0, 4), r.dtype());
  const Shape shape = r.full_shape(0, 2);
  return {t, at::zeros(shape, at::kLong), r.tensor(shape, t.scalar_type()), true};
}

Arguments bucketize(R& r) {
  return {r.tensor(r.shape(), r.floating()), at::arange(4, at::kFloat), r.chance(0.5),
          r.chance(0.5)};
}

Arguments searchsorted(R& r) {
  const Shape outer = r.full_shape(0, 2);
  const at::ScalarType dtype = r.pick({at::kFloat, at::kDouble, at::kLong});
  return {r.tensor(joined(outer, {r.integer(1, 4)}), dtype),
          r.tensor(joined(outer, {r.integer(1, 4)}), dtype),
          r.chance(0.5),
          r.chance(0.5),
          c10::IValue(),
          c10::IValue()};
}

// ---- Reductions --------------------------------------------------------------------------------

Arguments aminmax(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(0, 4), r.dtype());
  return {t, maybe(r, any_dim(r, t.dim())), r.chance(0.5)};
}

Arguments histogram(R& r) {
  return {r.tensor(r.shape(), r.pick({at::kFloat, at::kDouble})), r.integer(1, 5), at::Scalar(0),
          at::Scalar(1)};
}

Arguments renorm(R& r) {
  const at::Tensor t = r.tensor(r.full_shape(2, 4), r.floating());
  return {t, at::Scalar(2), any_dim(r, t.dim()), at::Scalar(1)};
}

// ---- Random numbers ----------------------------------------------------------------------------

Arguments normal(R& r) {
  Arguments a = alike(r, r.floating());
  a.push_back({});
  return a;
}

// ---- Our own -----------------------------------------------------------------------------------

/// A tensor that fills one block of memory, and the place to offload it to.
Arguments offload(R& r) {
  const at::Tensor t = r.contiguous(r.full_shape(0, 4), r.dtype());
  return {t.dim() > 1 && r.chance(0.5) ? t.transpose(0, 1) : t, int64_t{0},
          std::filesystem::temp_directory_path().string()};
}

/// A part of what several ranks packed.
Arguments unpack(R& r) {
  const int64_t ranks = r.integer(1, 3), elements = r.integer(1, 5), offset = r.integer(0, 3);
  return {r.tensor({ranks * (offset + elements + r.integer(0, 2))}, r.dtype()), ranks, offset,
          elements};
}

/// Parts of a flat tensor, with room between them.
Arguments pack(R& r) {
  std::vector<at::Tensor> parts;
  std::vector<int64_t> offsets;
  int64_t end = r.integer(0, 3);
  const auto dtype = r.floating();
  const int64_t count = r.integer(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(r.tensor(r.shape(), dtype));
    offsets.push_back(end);
    end += parts.back().numel() + r.integer(0, 3);
  }
  static const auto sum = detail::LocalSum::make("samples", /*whole=*/true);
  sum->clear();
  return {parts, offsets, end, r.floating(), sum->name()};
}

/// The same without a sum.
Arguments join(R& r) {
  Arguments stack = pack(r);
  stack.pop_back();
  return stack;
}

/// A handle and the metadata of its tensor.
Arguments fetch(R& r) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("antegrad::offload", "");
  Arguments stack = offload(r);
  const at::Tensor t = stack[0].toTensor();
  op.callBoxed(stack);
  return {stack[0], t.sizes().vec(), t.strides().vec(), t.scalar_type(), t.device()};
}

}  // namespace

const ArgumentsTable& rare_samples() {
  static const ArgumentsTable table = {
      {"aten::_conj_physical",
       [](R& r) {
         return Arguments{r.tensor(r.shape(), r.pick({at::kComplexFloat, at::kComplexDouble}))};
       }},
      {"aten::complex",
       [](R& r) {
         return alike(r, r.pick({at::kFloat, at::kDouble}));
       }},
      {"aten::polar",
       [](R& r) {
         return alike(r, r.pick({at::kFloat, at::kDouble}));
       }},
      {"aten::gcd",
       [](R& r) {
         return alike(r, r.pick({at::kLong, at::kInt}));
       }},
      {"aten::lcm",
       [](R& r) {
         return alike(r, r.pick({at::kLong, at::kInt}));
       }},
      {"aten::isin.Tensor_Tensor",
       [](R& r) {
         const at::ScalarType dtype = r.pick({at::kFloat, at::kLong});
         return Arguments{r.tensor(r.shape(), dtype), r.tensor(r.shape(1, 2), dtype), false, false};
       }},

      {"aten::addbmm",
       [](R& r) {
         const at::ScalarType dtype = r.floating();
         const int64_t batch = r.integer(1, 3), a = r.integer(1, 4), b = r.integer(1, 4),
                       c = r.integer(1, 4);
         return Arguments{r.tensor(r.narrowed({a, c}), dtype), r.tensor({batch, a, b}, dtype),
                          r.tensor({batch, b, c}, dtype), at::Scalar(1), at::Scalar(1)};
       }},
      {"aten::_cdist_forward", distances},
      {"aten::_cdist_backward", distances_backward},
      {"aten::_euclidean_dist",
       [](R& r) {
         return batches_of_rows(r, r.pick({at::kFloat, at::kDouble}), true);
       }},
      {"aten::_pdist_forward", rows},
      {"aten::_pdist_backward", rows_backward},

      {"aten::index_reduce", index_reduce},
      {"aten::put", put},
      {"aten::take", take},
      {"aten::bucketize.Tensor", bucketize},
      {"aten::searchsorted.Tensor", searchsorted},
      {"aten::searchsorted.Scalar",
       [](R& r) {
         return Arguments{r.tensor({r.integer(1, 4)}, r.pick({at::kFloat, at::kLong})),
                          at::Scalar(1),
                          r.chance(0.5),
                          false,
                          c10::IValue(),
                          c10::IValue()};
       }},

      {"aten::aminmax", aminmax},
      {"aten::histc", histogram},
      {"aten::renorm", renorm},
      {"aten::polygamma",
       [](R& r) {
         return Arguments{r.integer(1, 2), any_tensor(r)};
       }},

      {"aten::normal.Tensor_Tensor", normal},
      {"aten::poisson",
       [](R& r) {
         return Arguments{r.tensor(r.shape(), r.floating()), c10::IValue()};
       }},
      {"aten::random.from",
       [](R& r) {
         return Arguments{any_tensor(r), int64_t{0}, int64_t{2}, c10::IValue()};
       }},
      {"aten::random.to",
       [](R& r) {
         return Arguments{any_tensor(r), int64_t{2}, c10::IValue()};
       }},

      {"antegrad::fetch", fetch},
      {"antegrad::offload", offload},
      {"antegrad::pack", pack},
      {"antegrad::accumulate", pack},
      {"antegrad::join", join},
      {"antegrad::unpack", unpack},
  };
  return table;
}

}  // namespace antegrad::testing
