#pragma once

/// \file
/// How optimizers make a new value of a parameter, and of what they keep of it, from its gradient:
/// operator by operator, with numbers that a program takes as inputs.

#include <ATen/core/Tensor.h>
#include <antegrad/tree.h>

#include <vector>

namespace antegrad::step {

using Tensors = std::vector<at::Tensor>;
using Scalars = std::vector<at::Scalar>;
/// What decides which operators an update calls, as flags: host values of a program.
using Form = std::vector<HostValue>;

/// The new value of the parameter, then those of its state. Keeps nothing.
using Update = Tensors (*)(const Form& form, const at::Tensor& parameter,
                           const at::Tensor& gradient, const Tensors& state,
                           const Scalars& numbers);

/// Stochastic gradient descent. Its state is the buffer of the momentum, if it has one.
namespace sgd {
enum Flag { decays, has_momentum, nesterov, first, maximizes };
enum Number { decay, momentum, rest, step };  // rest: 1 - dampening; step: -lr
Tensors update(const Form& form, const at::Tensor& parameter, const at::Tensor& gradient,
               const Tensors& state, const Scalars& numbers);
}  // namespace sgd

/// Adam and AdamW. Their state are both moments, and with amsgrad the greatest second moment.
namespace adam {
/// decoupled: the parameter decays, not its gradient. by_lerp: the first moment is made by lerp(),
/// as torch.optim does it, not by mul() and add(), as torch::optim does.
enum Flag { decays, decoupled, amsgrad, by_lerp, maximizes };
/// decay: 1 - lr * weight_decay if decoupled, else weight_decay; rest: 1 - beta; root: of the
/// second correction; step: -lr / first correction.
enum Number { decay, beta1, rest1, beta2, rest2, eps, root, step };
Tensors update(const Form& form, const at::Tensor& parameter, const at::Tensor& gradient,
               const Tensors& state, const Scalars& numbers);
}  // namespace adam

}  // namespace antegrad::step
