#include <ATen/ATen.h>

#include "picks.h"

namespace antegrad::fuzz {
namespace {

// A tensor with at least one dimension, and positions in the first (taken modulo its size).
bool and_positions(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) { return t.dim() > 0 && t.numel() > 0; })) return false;
  return p.add(s, [](const at::Tensor& t) { return integral(t) && t.dim() == 1; });
}
bool float_and_positions(Picker& p, Statement& s) {
  if (!float_of_rank<1>(p, s)) return false;
  return p.add(s, [](const at::Tensor& t) { return integral(t) && t.dim() == 1; });
}
// Two tensors with equal metadata.
bool two_alike(Picker& p, Statement& s) {
  if (!float_of_rank<1>(p, s)) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) {
    return t.sizes() == first.sizes() && t.scalar_type() == first.scalar_type();
  });
}
bool and_condition(Picker& p, Statement& s) {
  if (!two_floats(p, s)) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) { return boolean(t) && broadcasts_to(t, first); });
}
bool and_mask(Picker& p, Statement& s) {
  if (!one_float(p, s)) return false;
  const auto first = p.at(s, 0);
  s.numbers = {p.number()};
  return p.add(s, [&](const at::Tensor& t) { return boolean(t) && broadcasts_to(t, first); });
}
bool list_of_two(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) { return t.dim() > 0; })) return false;
  const auto first = p.at(s, 0);
  s.integers = {p.integer(0, first.dim() - 1)};
  return p.add(s, [&](const at::Tensor& t) { return t.sizes() == first.sizes(); });
}
bool list_of_floats(Picker& p, Statement& s) {
  if (!p.add(s, floating)) return false;
  const auto first = p.at(s, 0);
  for (int i = 0; i < 2; ++i) {
    p.add(s, [&](const at::Tensor& t) { return t.sizes() == first.sizes(); });
  }
  s.integers = {p.integer(0, first.dim())};
  return true;
}

// Positions in the first dimension; their number depends on data.
at::Tensor positive_rows(const at::Tensor& t) {
  return at::nonzero(t.reshape({t.size(0), -1}).select(1, 0) > 0).select(1, 0);
}

}  // namespace

std::span<const Operation> indexing_operations() {
  static const Operation kAll[] = {
      AG_VALUE(indexing, and_positions,
               at::index_select(c.t[0], 0, c.t[1].remainder(c.t[0].size(0)))),
      AG_VALUE(indexing, and_positions, c.t[0].index({c.t[1].remainder(c.t[0].size(0))})),
      AG_VALUE(indexing, float_and_dim<1>,
               at::gather(c.t[0], c.i[0], at::zeros_like(c.t[0], at::kLong))),
      AG_VALUE(indexing, float_and_dim<1>, at::gather(c.t[0], c.i[0], at::argsort(c.t[0], c.i[0]))),
      AG_VALUE(indexing, two_alike,
               at::scatter(c.t[0], 0, at::argsort(c.t[1], int64_t{0}), c.t[1])),
      AG_VALUE(indexing, two_alike,
               at::scatter_add(c.t[0], 0, at::zeros_like(c.t[1], at::kLong), c.t[1])),
      AG_VALUE(indexing, float_and_positions,
               at::index_add(c.t[0], 0, c.t[1].remainder(c.t[0].size(0)),
                             c.t[0].index_select(0, c.t[1].remainder(c.t[0].size(0))))),
      AG_VALUE(indexing, float_and_positions,
               at::index_fill(c.t[0], 0, c.t[1].remainder(c.t[0].size(0)), 0.5)),
      AG_VALUE(indexing, float_and_positions,
               at::index_put(c.t[0], {c.t[1].remainder(c.t[0].size(0))}, c.t[0][0], true)),
      AG_VALUE(indexing, float_and_dim<1>, at::flip(c.t[0], {c.i[0]})),
      AG_VALUE(indexing, float_and_dim<1>, at::roll(c.t[0], {1}, {c.i[0]})),
      AG_VALUE(indexing, float_of_rank<2>, at::tril(c.t[0])),
      AG_VALUE(indexing, float_of_rank<2>, at::triu(c.t[0], 1)),
      AG_VALUE(indexing, two_alike, at::select_scatter(c.t[0], c.t[1][0], 0, 0)),
      AG_VALUE(indexing, float_and_dim<1>, at::repeat_interleave(c.t[0], 2, c.i[0])),
      AG_VALUE(indexing, float_of_rank<1>, c.t[0].repeat({2, 1, 1, 1})),

      AG_VALUE(data, one_float, c.t[0].sum().gt(0).item<bool>() ? at::sin(c.t[0]) : c.t[0] * 2),
      AG_VALUE(data, one_float, c.t[0] * c.t[0].gt(0.5).sum().item<int64_t>()),
      AG_VALUE(data, one_float, c.t[0].index({c.t[0] > 0}).sum()),
      AG_VALUE(data, one_float, at::masked_select(c.t[0], c.t[0] < 0).sin().sum()),
      AG_VALUE(data, float_of_rank<1>, at::index_put(c.t[0], {c.t[0] > 0}, c.t[0].sum())),
      AG_VALUE(data, float_of_rank<1>,
               at::index_add(c.t[0], 0, positive_rows(c.t[0]),
                             c.t[0].index_select(0, positive_rows(c.t[0])))),
      AG_VALUE(data, one_float, std::get<0>(at::_unique2(c.t[0].gt(0))).sum()),

      AG_VALUE(join, list_of_two, at::cat({c.t[0], c.t[1]}, c.i[0])),
      AG_VALUE(join, list_of_two, at::cat({c.t[1], c.t[0], c.t[1]}, c.i[0])),
      AG_VALUE(join, list_of_floats, at::stack({c.t[0], c.t[1], c.t[2]}, c.i[0])),
      AG_VALUE(join, list_of_two, at::hstack({c.t[0], c.t[1]})),

      AG_VALUE(sort, float_and_dim<1>, at::sort(c.t[0], c.i[0])),
      AG_VALUE(sort, float_and_dim<1>, at::sort(c.t[0], c.i[0], true)),
      AG_VALUE(sort, float_and_dim<1>, at::topk(c.t[0], 1, c.i[0])),
      AG_VALUE(sort, float_and_dim<1>, at::kthvalue(c.t[0], 1, c.i[0])),
      AG_VALUE(sort, any_and_dim<1>, at::argsort(c.t[0].to(at::kFloat), c.i[0])),

      AG_VALUE(where, and_condition, at::where(c.t[2], c.t[0], c.t[1])),
      AG_VALUE(where, two_floats, at::where(c.t[0] > c.t[1], c.t[0], c.t[1])),
      AG_VALUE(where, and_mask, at::masked_fill(c.t[0], c.t[1], c.x[0])),
      AG_VALUE(where, float_and_number, at::where(c.t[0] > 0, c.t[0], c.x[0])),
      AG_VALUE(where, float_and_number, at::masked_fill(c.t[0], c.t[0] < 0, c.x[0])),
  };
  return kAll;
}

}  // namespace antegrad::fuzz
