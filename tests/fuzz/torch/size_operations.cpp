#include <ATen/ATen.h>

#include "picks.h"

namespace antegrad::fuzz {

std::span<const Operation> size_operations() {
  static const Operation kAll[] = {
      AG_VALUE(host, float_and_dim<1>,
               c.t[0].sum(c.i[0]) / static_cast<double>(c.t[0].size(c.i[0]))),
      AG_VALUE(host, one_float, c.t[0] * static_cast<double>(c.t[0].numel()) * 0.1),
      AG_VALUE(host, float_of_rank<1>, c.t[0] + at::full({c.t[0].size(-1)}, c.t[0].size(0))),
      AG_VALUE(host, float_of_rank<1>, c.t[0].size(0) % 2 == 0 ? at::sin(c.t[0]) : at::cos(c.t[0])),
      AG_VALUE(host, any_and_dim<1>, at::arange(c.t[0].size(c.i[0]))),
      AG_VALUE(host, any_and_dim<1>, c.t[0].narrow(c.i[0], 0, (c.t[0].size(c.i[0]) + 1) / 2)),
      AG_VALUE(host, any_and_dim<1>, c.t[0].slice(c.i[0], c.t[0].size(c.i[0]) / 2)),
      AG_VALUE(host, any_and_dim<1>, c.t[0].select(c.i[0], c.t[0].size(c.i[0]) - 1)),
      AG_VALUE(host, any_and_dim<1>, c.t[0].roll({c.t[0].size(c.i[0]) / 2}, {c.i[0]})),
      AG_VALUE(host, any_of_rank<2>, c.t[0].reshape({-1, c.t[0].size(-1)})),
      AG_VALUE(host, any_of_rank<2>, c.t[0].flatten(0, 1)),
      AG_VALUE(host, float_of_rank<1>, at::constant_pad_nd(c.t[0], {c.t[0].size(0), 1})),
  };
  return kAll;
}

}  // namespace antegrad::fuzz
