#include <ATen/ATen.h>

#include "picks.h"

namespace antegrad::fuzz {
namespace {

bool fits_matmul(const at::Tensor& t) { return floating(t) && t.dim() >= 1 && t.numel() > 0; }

// Two tensors of one dtype whose last dimensions agree.
bool same_last(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) { return fits_matmul(t) && t.dim() <= 3; })) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) {
    return fits_matmul(t) && t.dim() == 2 && t.size(-1) == first.size(-1) &&
           t.scalar_type() == first.scalar_type();
  });
}
// The factors of a matrix product: the second has as many rows as the first has columns.
bool chained(Picker& p, Statement& s) {
  if (!p.add(s, fits_matmul)) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) {
    return fits_matmul(t) && t.dim() == 2 && t.size(0) == first.size(-1) &&
           t.scalar_type() == first.scalar_type();
  });
}
bool with_weight(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) { return fits_matmul(t) && t.dim() <= 3; })) return false;
  const auto first = p.at(s, 0);
  const auto out = p.integer(1, 4);
  p.add_closure(s, {out, first.size(-1)}, first.scalar_type(), p.chance(0.8));
  p.add_closure(s, {out}, first.scalar_type(), p.chance(0.8));
  return true;
}
bool two_rows(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) { return floating(t) && t.dim() == 1; })) return false;
  const auto first = p.at(s, 0);
  return p.add(s, [&](const at::Tensor& t) {
    return t.dim() == 1 && t.scalar_type() == first.scalar_type() && t.size(0) == first.size(0);
  });
}
bool batch(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return floating(t) && t.dim() == 3 && t.numel() > 0; });
}
bool number_of_rank_1(Picker& p, Statement& s) {
  if (!p.add(s, [](const at::Tensor& t) {
        return real_number(t) && not_bool(t) && t.dim() > 0 && t.numel() > 0;
      })) {
    return false;
  }
  s.integers = {p.integer(0, p.at(s, 0).dim() - 1)};
  return true;
}

}  // namespace

std::span<const Operation> reduction_operations() {
  static const Operation kAll[] = {
      AG_VALUE(reduction, one_real, at::sum(c.t[0])),
      AG_VALUE(reduction, number_of_rank_1, at::sum(c.t[0], c.i[0])),
      AG_VALUE(reduction, float_and_dim<1>, at::sum(c.t[0], c.i[0], true)),
      AG_VALUE(reduction, float_of_rank<0>, at::mean(c.t[0])),
      AG_VALUE(reduction, float_and_dim<1>, at::mean(c.t[0], c.i[0], true)),
      AG_VALUE(reduction, float_of_rank<2>, at::mean(c.t[0], at::IntArrayRef({0, 1}))),
      AG_VALUE(reduction, number_of_rank_1, at::amax(c.t[0], c.i[0])),
      AG_VALUE(reduction, number_of_rank_1, at::amin(c.t[0], c.i[0], true)),
      AG_VALUE(reduction, float_and_dim<1>, at::prod(c.t[0].clamp(-1.5, 1.5), c.i[0])),
      AG_VALUE(reduction, float_of_rank<1>, at::prod(c.t[0].clamp(0.5, 1.5))),
      AG_VALUE(reduction, float_and_dim<1>, at::var(c.t[0], c.i[0], false)),
      AG_VALUE(reduction, float_and_dim<1>, at::std(c.t[0] + at::rand_like(c.t[0]), c.i[0], false)),
      AG_VALUE(reduction, float_and_dim<1>, at::norm(c.t[0] + 0.1, 2, c.i[0])),
      AG_VALUE(reduction, float_and_dim<1>, at::logsumexp(c.t[0], c.i[0])),
      AG_VALUE(reduction, number_of_rank_1, at::argmax(c.t[0], c.i[0])),
      AG_VALUE(reduction, number_of_rank_1, at::max(c.t[0], c.i[0])),
      AG_VALUE(reduction, number_of_rank_1, at::min(c.t[0], c.i[0], true)),
      AG_VALUE(reduction, float_of_rank<0>, at::max(c.t[0])),
      AG_VALUE(reduction, float_and_dim<1>, at::var_mean(c.t[0], {c.i[0]}, false)),
      AG_VALUE(reduction, any_and_dim<1>, at::any(c.t[0], c.i[0])),
      AG_VALUE(reduction, one_real, at::all(c.t[0])),
      AG_VALUE(reduction, number_of_rank_1, at::count_nonzero(c.t[0], at::IntArrayRef(c.i[0]))),

      AG_VALUE(cumulative, number_of_rank_1, at::cumsum(c.t[0], c.i[0])),
      AG_VALUE(cumulative, float_and_dim<1>, at::cumprod(c.t[0].clamp(-1.5, 1.5), c.i[0])),
      AG_VALUE(cumulative, float_and_dim<1>, at::cummax(c.t[0], c.i[0])),
      AG_VALUE(cumulative, float_and_dim<1>, at::logcumsumexp(c.t[0], c.i[0])),

      AG_VALUE(matmul, chained, at::matmul(c.t[0], c.t[1])),
      AG_VALUE(matmul, same_last, at::matmul(c.t[0], c.t[1].t())),
      AG_VALUE(matmul, same_last, at::linear(c.t[0], c.t[1])),
      AG_VALUE(matmul, with_weight, at::linear(c.t[0], c.t[1], c.t[2])),
      AG_VALUE(matmul, with_weight,
               at::addmm(c.t[2], c.t[0].reshape({-1, c.t[0].size(-1)}), c.t[1].t())),
      AG_VALUE(matmul, two_rows, at::dot(c.t[0], c.t[1])),
      AG_VALUE(matmul, two_rows, at::outer(c.t[0], c.t[1])),
      AG_VALUE(matmul, batch, at::bmm(c.t[0], c.t[0].transpose(1, 2))),
      AG_VALUE(matmul, batch, at::einsum("bij,bik->bjk", {c.t[0], c.t[0]})),
  };
  return kAll;
}

}  // namespace antegrad::fuzz
