"""How to call ATen for each operator of pointwise.txt, and with which numbers."""

import torch
import torch.nn.functional as F

A = torch.ops.aten


def unary(*names):
    return {name: (getattr(torch, name), [()]) for name in names}


def compared(*names):
    return {name: (getattr(torch, name), [()]) for name in names}


def mse_backward(g, x, y, norm):
    """A norm of 0 stands for the mean; numbers_of gives the recipe its value."""
    return A.mse_loss_backward(g, x, y, 0 if norm else 1)


def smooth_l1_backward(g, x, y, norm, beta):
    return A.smooth_l1_loss_backward(g, x, y, 0 if norm else 1, beta)


def huber_backward(g, x, y, norm, delta):
    return A.huber_loss_backward(g, x, y, 0 if norm else 1, delta)


SLOPES = {"mse_backward": 2.0, "smooth_l1_backward": 1.0, "huber_backward": 1.0}


def numbers_of(name, numbers, numel):
    """What the recipe gets, where it depends on the size."""
    mean = name in SLOPES and numbers[0] == 0 and numel
    return (SLOPES[name] / numel, *numbers[1:]) if mean else numbers


# Conversions to integers and bools: check_groups.py compares these.
COMPARED_IN_GROUPS = ("to_i64", "to_i32", "to_u8", "to_bool")

# Operators for which the level `close` has no kernel of contiguous operands: eager's other code for the same call, and a
# call with two results.
NO_CLOSE_KERNEL = ("gelu_native", "gelu_backward_native", "softmax_backward_serial", "log_sigmoid")
# Their result is contiguous whatever their operands are, so rows of transposed ones are strided.
CONTIGUOUS_RESULT = ("smooth_l1_backward", "huber_backward")

# Operands that ATen does not broadcast.
NEVER_CONSTANT = dict.fromkeys((*SLOPES, "huber"), ("x", "y"))

# For integers and bools, where other numbers do not fit.
INTEGER_NUMBERS = {
    **{"add": [(3,)], "sub": [(2,)], "rsub": [(1,)], "add_number": [(3, 2)], "mul_number": [(3,)]},
    **{"clamp": [(1, 5)], "clamp_min": [(0,)], "clamp_max": [(3,)], "masked_fill": [(1,)]},
}

CASES = {
    **unary("reciprocal", "neg", "abs", "sign", "floor", "ceil", "trunc", "round", "sqrt", "rsqrt"),
    **unary("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin"),
    **unary("acos", "atan", "tanh", "erf", "erfc", "sinh", "cosh", "sigmoid", "relu", "isnan"),
    **unary("logical_not", "bitwise_not"),
    **compared("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    **compared("eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "atan2", "logaddexp"),
    "add": (lambda x, y, a: torch.add(x, y, alpha=a), [(1.0,), (-1.0,), (0.3,)]),
    "sub": (lambda x, y, a: torch.sub(x, y, alpha=a), [(1.0,), (0.7,)]),
    "rsub": (lambda x, y, a: torch.rsub(x, y, alpha=a), [(1.0,), (0.7,)]),
    "add_number": (lambda x, s, a: torch.add(x, s, alpha=a), [(0.3, 1.0), (1.7, 0.3)]),
    "mul": (torch.mul, [()]),
    "mul_number": (torch.mul, [(0.3,), (1 / 768,)]),
    "div": (torch.div, [()]),
    "div_number": (torch.div, [(3.0,), (0.9,)]),
    "addcmul": (lambda x, y, z, v: torch.addcmul(x, y, z, value=v), [(1.0,), (0.3,)]),
    "addcdiv": (lambda x, y, z, v: torch.addcdiv(x, y, z, value=v), [(-0.3,)]),
    "lerp_number": (torch.lerp, [(0.1,), (0.9,), (1.0,)]),
    "lerp": (torch.lerp, [()]),
    "pow_half": (lambda x: x**0.5, [()]),
    "pow_minus_half": (lambda x: x**-0.5, [()]),
    "pow_2": (lambda x: x**2, [()]),
    "pow_3": (lambda x: x**3, [()]),
    "pow_minus_1": (lambda x: x**-1, [()]),
    "pow_minus_2": (lambda x: x**-2, [()]),
    "pow_number": (torch.pow, [(2.5,), (4.0,), (0.3,)]),
    "pow": (torch.pow, [()]),
    "clamp": (torch.clamp, [(-0.5, 0.75)]),
    "clamp_min": (torch.clamp_min, [(0.25,), (0.3,)]),
    "clamp_max": (torch.clamp_max, [(0.25,), (0.3,)]),
    "where": (torch.where, [()]),
    "masked_fill": (torch.masked_fill, [(float("-inf"),), (0.3,)]),
    "sigmoid_backward": (A.sigmoid_backward, [()]),
    "tanh_backward": (A.tanh_backward, [()]),
    "threshold_backward": (A.threshold_backward, [(0.0,), (0.3,)]),
    "leaky_relu": (F.leaky_relu, [(0.01,)]),
    "leaky_relu_backward": (lambda g, x, s: A.leaky_relu_backward(g, x, s, False), [(0.01,)]),
    "elu": (A.elu, [(1.0, 1.0, 1.0), (1.6732632423543772, 1.0507009873554805, 0.7)]),
    "elu_backward": (
        lambda g, y, *numbers: A.elu_backward(g, *numbers, True, y),
        [(1.0, 1.0, 1.0), (1.6732632423543772, 1.0507009873554805, 0.7)],
    ),
    "elu_backward_of_input": (
        lambda g, x, *numbers: A.elu_backward(g, *numbers, False, x),
        [(1.0, 1.0, 1.0), (1.6732632423543772, 1.0507009873554805, 0.7)],
    ),
    "gelu": (F.gelu, [()]),
    "gelu_native": (F.gelu, [()]),
    "gelu_backward": (A.gelu_backward, [()]),
    "gelu_backward_native": (A.gelu_backward, [()]),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), [()]),
    "gelu_tanh_backward": (lambda g, x: A.gelu_backward(g, x, approximate="tanh"), [()]),
    "silu": (F.silu, [()]),
    "silu_backward": (A.silu_backward, [()]),
    "softplus": (F.softplus, [(1.0, 20.0), (2.0, 5.0)]),
    "softplus_backward": (A.softplus_backward, [(1.0, 20.0), (2.0, 5.0)]),
    "mish": (F.mish, [()]),
    "mish_backward": (A.mish_backward, [()]),
    "hardswish": (F.hardswish, [()]),
    "hardswish_backward": (A.hardswish_backward, [()]),
    "hardsigmoid": (F.hardsigmoid, [()]),
    "hardsigmoid_backward": (A.hardsigmoid_backward, [()]),
    "hardtanh_backward": (A.hardtanh_backward, [(-1.0, 1.0), (-0.3, 0.7)]),
    "log_sigmoid": (lambda x: A.log_sigmoid_forward(x)[0], [()]),
    "dropout_backward": (A.native_dropout_backward, [(1 / 0.9,)]),
    "mse": (lambda x, y: A.mse_loss(x, y, 0), [()]),
    "mse_backward": (mse_backward, [(2.0,), (0.0,)]),
    "smooth_l1_backward": (smooth_l1_backward, [(1.0, 1.0), (0.0, 1.0), (0.0, 0.3)]),
    "huber_backward": (huber_backward, [(1.0, 1.0), (0.0, 1.0), (0.0, 0.3)]),
    "huber": (lambda x, y, d: A.huber_loss(x, y, 0, d), [(1.0,), (0.3,)]),
    "smooth_l1": (lambda x, y, b: A.smooth_l1_loss(x, y, 0, b), [(1.0,), (0.3,)]),
    "to_f32": (lambda x: x.float(), [()]),
    "to_f64": (lambda x: x.double(), [()]),
    "to_bf16": (lambda x: x.bfloat16(), [()]),
    "to_f16": (lambda x: x.half(), [()]),
    "to_i64": (lambda x: x.long(), [()]),
    "to_i32": (lambda x: x.int(), [()]),
    "to_u8": (lambda x: x.to(torch.uint8), [()]),
    "to_bool": (lambda x: x.bool(), [()]),
}
