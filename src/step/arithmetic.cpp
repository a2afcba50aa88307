#include "step/arithmetic.h"

#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/div.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sqrt.h>

namespace antegrad::step {
namespace {

bool flag(const Form& form, size_t index) { return std::get<bool>(form.at(index)); }

}  // namespace

// torch/csrc/api/src/optim/sgd.cpp, torch/optim/sgd.py
Tensors sgd::update(const Form& form, const at::Tensor& p, const at::Tensor& gradient,
                    const Tensors& state, const Scalars& n) {
  auto d = flag(form, maximizes) ? gradient.neg() : gradient;
  if (flag(form, decays)) d = d.add(p, n[decay]);
  if (!flag(form, has_momentum)) return {p.add(d, n[step])};
  const auto buffer = flag(form, first) ? at::clone(d) : state[0].mul(n[momentum]).add(d, n[rest]);
  d = flag(form, nesterov) ? d.add(buffer, n[momentum]) : buffer;
  return {p.add(d, n[step]), buffer};
}

// torch/csrc/api/src/optim/adam.cpp and adamw.cpp, torch/optim/adam.py
Tensors adam::update(const Form& form, const at::Tensor& p, const at::Tensor& gradient,
                     const Tensors& state, const Scalars& n) {
  auto g = flag(form, maximizes) ? gradient.neg() : gradient;
  const bool decays_itself = flag(form, decays) && flag(form, decoupled);
  if (flag(form, decays) && !decays_itself) g = g.add(p, n[decay]);
  const auto decayed = decays_itself ? p.mul(n[decay]) : p;
  Tensors made{
      {},
      flag(form, by_lerp) ? state[0].lerp(g, n[rest1]) : state[0].mul(n[beta1]).add(g, n[rest1]),
      state[1].mul(n[beta2]).addcmul(g, g, n[rest2])};
  if (flag(form, amsgrad)) made.push_back(at::maximum(state[2], made[2]));
  const auto denominator = made.back().sqrt().div(n[root]).add(n[eps]);
  made[0] = decayed.addcdiv(made[1], denominator, n[step]);
  return made;
}

}  // namespace antegrad::step
