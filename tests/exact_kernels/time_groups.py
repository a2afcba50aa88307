"""Times kernels of common groups of training: how long the compiler takes, and how long they run beside eager ATen. Each
result is also compared with eager's, bit by bit, or at the level `close` by its errors."""

import argparse
import sys
import time

import torch

from timed import Compiler, Group, Ready, clocked

GELU = ['approximate="none"', 'approximate="tanh"']
COLUMNS = ["[0]", "false", "none"]


def bias_gelu(g, gelu=0):
    y = g.op("add.Tensor", g.input(), g.input(g.shape[-1:]), "scalar(1)")
    return [g.op("gelu.default", y, GELU[gelu])]


def gelu_backward(g, gelu=0):
    x = g.op("add.Tensor", g.input(), g.input(g.shape[-1:]), "scalar(1)")
    y = g.op("gelu_backward.default", g.input(), x, GELU[gelu])
    return [y, g.op("sum.dim_IntList", y, *COLUMNS)]


def relu_backward(g):
    y = g.op("threshold_backward.default", g.input(), g.input(), "scalar(0)")
    return [y, g.op("sum.dim_IntList", y, *COLUMNS)]


def columns(g):
    y = g.op("mul.Scalar", g.input(), "scalar(0.5)")
    return [g.op("sum.dim_IntList", y, *COLUMNS)]


def widened_columns(g):
    y = g.op("_to_copy.default", g.input(), "dtype=f32", *["none"] * 3, "false", "none")
    return [g.op("sum.dim_IntList", y, *COLUMNS)]


def residual_columns(g):
    y = g.op("add.Tensor", g.input(), g.input(), "scalar(1)")
    return [y, g.op("sum.dim_IntList", y, *COLUMNS)]


def layer_norm(g):
    x = g.op("add.Tensor", g.input(), g.input(), "scalar(1)")
    y = g.op("native_layer_norm.default", x, f"[{g.shape[-1]}]", g.input(g.shape[-1:]), g.input(g.shape[-1:]), "1e-05")
    return [x, y, y + 1, y + 2]


def layer_norm_backward(g):
    mean, rstd = g.input((*g.shape[:-1], 1)), g.input((*g.shape[:-1], 1))
    words = [g.input(), g.input(), f"[{g.shape[-1]}]", mean, rstd, g.input(g.shape[-1:]), "none", "[true, false, false]"]
    y = g.op("native_layer_norm_backward.default", *words)
    return [g.op("add.Tensor", g.input(), y, "scalar(1)")]


def softmax(g):
    x = g.op("mul.Scalar", g.input(), "scalar(0.125)")
    return [g.op("_softmax.default", x, "-1", "false")]


def masked_softmax(g):
    x = g.op("mul.Scalar", g.input(), "scalar(0.125)")
    x = g.op("masked_fill.Scalar", x, g.input(g.shape[-2:], torch.bool), "scalar(-1e30)")
    return [g.op("_softmax.default", x, "-1", "false")]


def softmax_backward(g):
    x = g.op("_softmax_backward_data.default", g.input(), g.input(), "-1", g.dtype)
    return [g.op("mul.Scalar", x, "scalar(0.125)")]


def log_softmax_backward(g):
    x = g.op("_log_softmax_backward_data.default", g.input(), g.input(), "-1", g.dtype)
    return [g.op("mul.Scalar", x, "scalar(0.125)")]


def log_softmax(g):
    x = g.op("mul.Scalar", g.input(), "scalar(0.125)")
    return [g.op("_log_softmax.default", x, "-1", "false")]


def dropout(g):
    x = g.op("mul.Tensor", g.input(), g.input(None, torch.bool))
    return [g.op("mul.Scalar", x, "scalar(1.25)")]


def residual(g):
    x = g.op("add.Tensor", g.input(), g.input(), "scalar(1)")
    return [g.op("add.Tensor", x, g.input(), "scalar(1)")]


def bias_residual(g):
    x = g.op("add.Tensor", g.input(), g.input(g.shape[-1:]), "scalar(1)")
    return [g.op("add.Tensor", x, g.input(), "scalar(1)")]


def silu_gate(g):
    x = g.op("silu.default", g.input())
    return [g.op("mul.Tensor", x, g.input())]


def row_sums(g):
    x = g.op("mul.Tensor", g.input(), g.input())
    return [g.op("sum.dim_IntList", x, "[-1]", "false", "none")]


def row_mean(g):
    x = g.op("mul.Scalar", g.input(), "scalar(0.5)")
    return [g.op("mean.dim", x, "[-1]", "false", "none")]


CHANNELS = slice(1, 2)
NORM_BACKWARD = "native_batch_norm_backward.default"


def batch_norm(g, residual=False, activation=True):
    words = [g.input(g.shape[CHANNELS]) for _ in range(4)]
    made = g.op("_native_batch_norm_legit_functional.default", g.input(), *words, "true", "0.1", "1e-05")
    y = g.op("add.Tensor", made, g.input(), "scalar(1)") if residual else made
    y = g.op("relu.default", y) if activation else y
    return [y, *range(made + 1, made + 5)]


def batch_norm_backward(g, activation=True, kept=False):
    dy = g.op("threshold_backward.default", g.input(), g.input(), "scalar(0)") if activation else g.input()
    words = [g.input(), *[g.input(g.shape[CHANNELS]) for _ in range(5)], "true", "1e-05", "[true, true, true]"]
    y = g.op(NORM_BACKWARD, dy, *words)
    return [*([dy] if kept else []), y, y + 1, y + 2]


WIDE, NARROW, SQUARE = (1024, 3072), (2048, 768), (24, 256, 256)
CASES = {
    "bias_gelu": (bias_gelu, WIDE),
    "bias_gelu_tanh": (lambda g: bias_gelu(g, 1), WIDE),
    "gelu_backward_sum": (gelu_backward, WIDE),
    "gelu_tanh_backward_sum": (lambda g: gelu_backward(g, 1), WIDE),
    "relu_backward_sum": (relu_backward, WIDE),
    "sum_columns": (columns, WIDE),
    "sum_columns_tall": (columns, (16384, 192)),
    "widened_columns": (widened_columns, WIDE),
    "residual_columns": (residual_columns, NARROW),
    "layer_norm": (layer_norm, NARROW),
    "layer_norm_backward": (layer_norm_backward, NARROW),
    "softmax": (softmax, SQUARE),
    "masked_softmax": (masked_softmax, SQUARE),
    "log_softmax": (log_softmax, (256, 8192)),
    "softmax_backward": (softmax_backward, SQUARE),
    "log_softmax_backward": (log_softmax_backward, (256, 8192)),
    "row_sums": (row_sums, NARROW),
    "row_mean": (row_mean, NARROW),
    "dropout": (dropout, WIDE),
    "residual": (residual, NARROW),
    "bias_residual": (bias_residual, NARROW),
    "silu_gate": (silu_gate, WIDE),
}
STAGES = {"56": (8, 64, 56, 56), "28": (8, 256, 28, 28), "14": (8, 1024, 14, 14), "7": (8, 512, 7, 7)}
for name, shape in STAGES.items():
    CASES |= {
        f"batch_norm_{name}": (lambda g: batch_norm(g, False, False), shape),
        f"batch_norm_relu_{name}": (batch_norm, shape),
        f"batch_norm_add_relu_{name}": (lambda g: batch_norm(g, True), shape),
        f"batch_norm_backward_{name}": (lambda g: batch_norm_backward(g, False), shape),
        f"relu_batch_norm_backward_{name}": (batch_norm_backward, shape),
        f"relu_batch_norm_backward_kept_{name}": (lambda g: batch_norm_backward(g, True, True), shape),
    }


def best(run, seconds, least=5):
    times, end = [], time.monotonic() + seconds
    while len(times) < least or time.monotonic() < end:
        times.append(run())
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the program group_kernels")
    parser.add_argument("cases", nargs="*", help="all, when left out")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--level", choices=["exact", "close"], default="exact")
    parser.add_argument("--flags", default="", help="more flags for the compiler")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each is repeated; the least time counts")
    parser.add_argument("--keep", help="a folder for the files in C")
    parser.add_argument("--compile-only", action="store_true")
    options = parser.parse_args()
    compiler = Compiler(options.tool, options.keep, options.flags)
    print(f"{compiler.capability}: {'case':24s} type threads compile [ms] kernel [us] eager [us] ratio  GB/s")
    for name in options.cases or CASES:
        make, shape = CASES[name]
        for dtype in options.dtypes.split(",") if "batch_norm" not in name else ["f32"]:
            group = Group(dtype, shape)
            group.results = set(make(group))
            for threads in map(int, options.threads.split(",")):
                torch.set_num_threads(threads)
                line, target, seconds = compiler.compiled(f"{name}_{dtype}", group, options.level, threads)
                if options.compile_only:
                    print(f"{name:33s} {dtype:4s} {threads:7d} {seconds * 1e3:12.0f}", flush=True)
                    continue
                ready = Ready(compiler, line, target, group, group.eager(), threads)
                mine = best(ready.seconds, options.seconds)
                theirs = best(lambda: clocked(group.eager, threads), options.seconds)
                mine = min(mine, best(ready.seconds, options.seconds))
                faults = ready.faults(options)
                print(f"{name:33s} {dtype:4s} {threads:7d} {seconds * 1e3:12.0f} {mine * 1e6:11.0f} {theirs * 1e6:10.0f} "
                      f"{mine / theirs:5.2f} {ready.megabytes() / mine / 1e3:5.1f}{f'  WRONG: {faults}' if faults else ''}",
                      flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
