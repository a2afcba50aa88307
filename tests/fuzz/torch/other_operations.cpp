#include <ATen/ATen.h>

#include "picks.h"

namespace antegrad::fuzz {
namespace {

bool plain_float(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
  });
}
bool plain_float_row(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) {
    return (t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble) && t.dim() > 0 &&
           t.numel() > 0;
  });
}
bool pairs(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat && t.is_contiguous() && t.dim() > 0 && t.size(-1) == 2 &&
           t.storage_offset() % 2 == 0;
  });
}
bool one_complex(Picker& p, Statement& s) {
  return p.add(s, [](const at::Tensor& t) { return t.is_complex(); });
}
// A flag, and a tensor with a number.
bool flag(Picker& p, Statement& s) {
  s.integers = {p.integer(0, 1)};
  return one_float(p, s);
}

// An `if` as one expression, so that its text matches the code that runs.
at::Tensor chosen(bool condition, const std::function<at::Tensor()>& yes,
                  const std::function<at::Tensor()>& no) {
  return condition ? yes() : no();
}
at::Tensor repeated(int64_t times, at::Tensor value) {
  for (int64_t i = 0; i < times; ++i) value = at::sin(value) + 0.5;
  return value;
}

}  // namespace

std::span<const Operation> other_operations() {
  static const Operation kAll[] = {
      AG_VALUE(random, one_float, at::dropout(c.t[0], 0.3, true)),
      AG_VALUE(random, one_float, at::rand_like(c.t[0])),
      AG_VALUE(random, one_float, c.t[0] + at::randn_like(c.t[0])),
      AG_VALUE(random, one_float, at::bernoulli(c.t[0].sigmoid())),
      AG_VALUE(random, one_real, at::randn(c.t[0].sizes(), c.t[0].device())),
      AG_VALUE(random, one_real, at::randint_like(c.t[0].detach(), 3)),
      AG_VALUE(random, plain_float, at::rrelu(c.t[0], 0.1, 0.3, true)),
      AG_VALUE(random, one_float, at::empty_like(c.t[0]).normal_()),

      AG_VALUE(complex, plain_float, at::complex(c.t[0], c.t[0] * 0.5)),
      AG_VALUE(complex, one_complex, at::real(c.t[0])),
      AG_VALUE(complex, one_complex, at::abs(c.t[0] + 1)),
      AG_VALUE(complex, one_complex, at::view_as_real(c.t[0].resolve_conj())),
      AG_VALUE(complex, one_complex, c.t[0] * at::conj(c.t[0])),
      AG_VALUE(complex, pairs, at::view_as_complex(c.t[0])),
      AG_VALUE(complex, plain_float_row, at::fft_rfft(c.t[0])),
      AG_VALUE(complex, plain_float_row, at::real(at::fft_fft(c.t[0]))),

      AG_VALUE(
          host, flag,
          chosen(
              c.flags[c.i[0]] > 0, [&] { return at::sin(c.t[0]); }, [&] { return c.t[0] * 2; })),
      AG_VALUE(host, flag, c.t[0] * c.flags[c.i[0]]),
      AG_VALUE(host, flag, repeated(c.flags[c.i[0]], c.t[0])),
      AG_VALUE(host, flag, c.flags[c.i[0]] > 1 ? c.t[0] : c.t[0].view_as(c.t[0])),
      Operation{Family::host, "if (c.flags[c.i[0]] > 0) c.t[0].mul_(2)", flag,
                [](const Call& c) -> List {
                  if (c.flags[c.i[0]] > 0) c.t[0].mul_(2);
                  return {};
                },
                0},
  };
  return kAll;
}

}  // namespace antegrad::fuzz
