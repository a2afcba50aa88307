"""How to call ATen for each operator of rows.txt: its operands, of given sizes, and the call."""

import torch

A = torch.ops.aten
ROWS = ((5, 2), (7, 31), (64, 100), (33, 768), (3, 4097), (1, 70), (300, 129), (4, 9001))
IMAGES = ((2, 3, 4, 4), (4, 16, 7, 7), (3, 5, 9, 11), (8, 64, 14, 14), (5, 2, 33), (4, 7, 56, 57))


def rows(call):
    return lambda values, *sizes: ([values(*sizes)], call)


def softmax_gradient(forward, backward):
    def case(values, *sizes):
        y = forward(values(*sizes), -1)
        return [values(*sizes), y], lambda g, y: backward(g, y, -1, y.dtype)

    return case


def layer_norm(values, rows, columns):
    operands = [values(rows, columns), values(columns), values(columns)]
    return operands, lambda x, w, b: A.native_layer_norm(x, [columns], w, b, 1e-5)


def layer_norm_no_weight(values, rows, columns):
    return [values(rows, columns), values(columns)], lambda x, b: A.native_layer_norm(x, [columns], None, b, 1e-5)


def layer_norm_backward(values, rows, columns):
    x = values(rows, columns)
    _, mean, rstd = A.native_layer_norm(x, [columns], None, None, 1e-5)
    operands = [values(rows, columns), x, mean.to(x.dtype), rstd.to(x.dtype), values(columns)]
    call = lambda g, x, mean, rstd, w: A.native_layer_norm_backward(g, x, [columns], mean, rstd, w, w, [True] * 3)
    return operands, call


def layer_norm_backward_plain(values, rows, columns):
    operands, _ = layer_norm_backward(values, rows, columns)
    mask = [True, False, False]
    call = lambda g, x, mean, rstd: A.native_layer_norm_backward(g, x, [columns], mean, rstd, None, None, mask)
    return operands[:4], call


def batch_norm(values, images, channels, *sizes):
    operands = [values(images, channels, *sizes), *[values(channels) for _ in range(3)], values(channels).abs()]
    return operands, lambda *tensors: A._native_batch_norm_legit_functional(*tensors, True, 0.1, 1e-5)


def batch_norm_backward(values, images, channels, *sizes):
    x = values(images, channels, *sizes)
    _, mean, invstd = A.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    operands = [values(*x.shape), x, values(channels), mean, invstd]
    call = lambda g, x, w, mean, invstd: A.native_batch_norm_backward(
        g, x, w, None, None, mean, invstd, True, 1e-5, [True] * 3
    )
    return operands, call


def nll_loss_backward(reduction):
    def case(values, rows, columns):
        x, target = values(rows, columns), torch.arange(rows) * 7 % columns
        target[::5] = -100
        g = values(rows) if reduction == 0 else values(1)[0]
        operands = [g, target, values(1).abs()[0] + 1, x]
        call = lambda g, t, total, x: A.nll_loss_backward(g, x, t, None, reduction, -100, total)
        return operands, call

    return case


ROW_CASES = {
    "softmax": rows(lambda x: A._softmax(x, -1, False)),
    "log_softmax": rows(lambda x: A._log_softmax(x, -1, False)),
    "softmax_backward": softmax_gradient(torch.softmax, A._softmax_backward_data),
    "log_softmax_backward": softmax_gradient(torch.log_softmax, A._log_softmax_backward_data),
    "layer_norm": layer_norm,
    "layer_norm_no_weight": layer_norm_no_weight,
    "layer_norm_backward": layer_norm_backward,
    "layer_norm_backward_plain": layer_norm_backward_plain,
    "batch_norm": batch_norm,
    "batch_norm_backward": batch_norm_backward,
    "nll_loss_backward": nll_loss_backward(0),
    "nll_loss_backward_mean": nll_loss_backward(1),
    "sum": rows(lambda x: x.sum(-1)),
    "mean": rows(lambda x: x.mean(-1)),
    "amax": rows(lambda x: x.amax(-1)),
    "amin": rows(lambda x: x.amin(-1)),
    "sum_columns": rows(lambda x: x.sum(0)),
    "mean_columns": rows(lambda x: x.mean(0)),
    "amax_columns": rows(lambda x: x.amax(0)),
    "amin_columns": rows(lambda x: x.amin(0)),
}
