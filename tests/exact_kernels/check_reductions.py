"""Compares the reductions of src/lower/c with ATen, bit by bit. README.md says how."""

import argparse
import ctypes
import math
import sys

import torch
import torch.nn.functional as F

from check import differences, split
from program import compile_c, header, parsed
from recipes import REDUCTIONS

A = torch.ops.aten
MASKED = 2.0  # stands for infinities and NaNs
HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}
SHAPES = (
    (1, 1), (1, 33), (3, 5), (5, 8), (7, 31), (4, 33), (64, 100), (33, 768), (128, 769), (257, 1000),
    (1024, 512), (4096, 48), (17, 4097), (2, 50304), (513, 260), (20000, 15), (9000, 40),
)  # fmt: skip


class Table:
    def __init__(self):
        self.rows = {}

    def add(self, name, expected, found, what):
        bad, nan = differences(expected.contiguous(), found.reshape(expected.shape))
        row = self.rows.setdefault(name, [0, 0, ""])
        row[0] += int(bad.sum())
        row[1] += expected.numel()
        if bad.any() and not row[2]:
            row[2] = what

    def print(self):
        for name, (wrong, compared, first) in self.rows.items():
            print(f"{name:38s} " + (f"{wrong} of {compared} differ, first {first}" if wrong else "exact"))


def arguments(values):
    kinds = {int: ctypes.c_long, float: ctypes.c_float}
    return [
        ctypes.c_void_p(v.data_ptr()) if isinstance(v, torch.Tensor) else v if v is None
        else kinds[type(v)](v) if type(v) in kinds else v
        for v in values
    ]  # fmt: skip


def check(library, table, rows, columns, scale, threads, generator):
    def call(name, *values):
        getattr(library, name)(*arguments(values))

    def add(name, expected, found):
        table.add(name, expected, found, f"{rows}x{columns}, scale {scale}, {threads} threads")

    def random(*shape):
        return torch.randn(*shape, generator=generator)

    def like(t):
        return torch.empty_like(t)

    x, g = random(rows, columns) * scale + scale / 3, random(rows, columns)
    if scale == MASKED:  # as an attention mask does; some rows have nothing left
        x = (x / scale).masked_fill(random(rows, columns) > 1, -math.inf)
        x[::13] = -math.inf
        x[5::17, ::3] = math.nan
    weight, bias = random(columns), random(columns)
    size, each = (rows, columns), torch.empty(rows)

    call("sum_rows_f32", each, x, *size, 0, rows)
    add("sum rows f32", x.sum(-1), each)
    call("mean_rows_f32", each, x, *size, 0, rows)
    add("mean rows f32", x.mean(-1), each)
    if columns > 1:
        call("var_rows_f32", each, x, *size, 0, rows)
        add("var rows f32", x.var(-1), each)
    out = torch.empty(columns)
    call("sum_columns_f32", out, x, *size, 0, columns)
    add("sum columns f32", x.sum(0), out)
    chunks = split(rows * columns, threads)
    partial = torch.zeros(max(threads, 1))
    for k, (low, high) in enumerate(chunks):
        call("sum_rows_f32", partial[k:], x.flatten()[low:], 1, high - low, 0, 1)
    total = partial[:1].clone()
    if threads > 1 and rows * columns >= 32768:
        call("sum_parts_f32", total, partial, threads)
    add("sum all f32", x.sum().reshape(1), total)

    y, means, rstds = like(x), torch.empty(rows), torch.empty(rows)
    for name, w, b in (("", weight, bias), (" no bias", weight, None), (" no weight", None, None)):
        call("layer_norm_f32", y, means, rstds, x, w, b, columns, 1e-5, 0, rows)
        expected = A.native_layer_norm(x, [columns], w, b, 1e-5)
        for part, e, f in zip(("", " mean", " rstd"), expected, (y, means, rstds)):
            add(f"layer_norm f32{name}{part}", e, f)
    dx, sums = like(x), torch.zeros(2, threads, columns)
    per = -(-rows // min(threads, rows))
    for t, low in enumerate(range(0, rows, per)):
        pieces = (sums[0, t], sums[1, t], g, x, means, rstds, weight)
        call("layer_norm_backward_f32", dx, *pieces, columns, low, min(low + per, rows))
    moments = means.reshape(rows, 1), rstds.reshape(rows, 1)
    grads = A.native_layer_norm_backward(g, x, [columns], *moments, weight, bias, [True] * 3)
    add("layer_norm_backward f32", grads[0], dx)
    for k, part in enumerate(("weight", "bias")):
        call("layer_norm_backward_sums_f32", out, sums[k], threads, columns)
        add(f"layer_norm_backward f32 {part}", grads[1 + k], out)

    call("softmax_f32", y, x, columns, 0, rows)
    soft = x.softmax(-1)
    add("softmax f32", soft, y)
    serial = int(threads == 1 or rows == 1)
    call("softmax_backward_f32", dx, g, soft, columns, serial, 0, rows)
    add("softmax_backward f32", A._softmax_backward_data(g, soft, -1, torch.float32), dx)
    call("log_softmax_f32", y, x, columns, 0, rows)
    logs = x.log_softmax(-1)
    add("log_softmax f32", logs, y)
    call("log_softmax_backward_f32", dx, g, logs, columns, 0, rows)
    add("log_softmax_backward f32", A._log_softmax_backward_data(g, logs, -1, torch.float32), dx)
    if rows > 1:
        target = torch.randint(0, columns, (rows,), generator=generator)
        target[::7] = -100
        loss, kept = torch.empty(1), torch.empty(1)
        call("nll_loss_f32", loss, kept, logs, target, *size, -100)
        add("nll_loss f32", F.nll_loss(logs, target).reshape(1), loss)
    indices = torch.randint(0, 50, (rows,), generator=generator)
    table_grad = torch.zeros(50, columns)
    call("embedding_backward_f32", table_grad, g, indices, rows, columns)
    add("embedding_backward f32", A.embedding_dense_backward(g, indices, 50, -1, False), table_grad)

    for name, dtype in HALVES.items():
        h, hg, w, b = x.to(dtype), g.to(dtype), weight.to(dtype), bias.to(dtype)
        out = torch.empty(rows, dtype=dtype)
        call(f"sum_rows_{name}", out, h, *size, 0, rows)
        add(f"sum rows {name}", h.sum(-1), out)
        call(f"mean_rows_{name}", out, h, *size, 0, rows)
        add(f"mean rows {name}", h.mean(-1), out)
        found = like(h), torch.empty(rows, dtype=dtype), torch.empty(rows, dtype=dtype)
        call(f"layer_norm_{name}", *found, h, w, b, columns, 1e-5, 0, rows)
        for part, e, f in zip(("", " mean", " rstd"), A.native_layer_norm(h, [columns], w, b, 1e-5), found):
            add(f"layer_norm {name}{part}", e, f)
        dx, sums, room = like(h), torch.zeros(2, threads, columns), torch.empty(3, columns)
        for t, low in enumerate(range(0, rows, per)):
            pieces = (sums[0, t], sums[1, t], hg, h, *found[1:], w, *room)
            call(f"layer_norm_backward_{name}", dx, *pieces, columns, low, min(low + per, rows))
        moments = [t.reshape(rows, 1) for t in found[1:]]
        grads = A.native_layer_norm_backward(hg, h, [columns], *moments, w, b, [True] * 3)
        add(f"layer_norm_backward {name}", grads[0], dx)
        for k, part in enumerate(("weight", "bias")):
            out = torch.empty(columns)
            call("layer_norm_backward_sums_f32", out, sums[k], threads, columns)
            add(f"layer_norm_backward {name} {part}", grads[1 + k], out.to(dtype))
        call(f"softmax_{name}", found[0], h, torch.empty(columns), columns, 0, rows)
        add(f"softmax {name}", h.softmax(-1), found[0])
        soft, logs = h.softmax(-1), h.log_softmax(-1)
        rows_of_f32 = torch.empty(2, columns)
        call(f"log_softmax_{name}", found[0], h, rows_of_f32, columns, 0, rows)
        add(f"log_softmax {name}", logs, found[0])
        for kind, y, backward in (
            ("softmax", soft, A._softmax_backward_data),
            ("log_softmax", logs, A._log_softmax_backward_data),
        ):
            call(f"{kind}_backward_{name}", found[0], hg, y, *rows_of_f32, columns, 0, rows)
            add(f"{kind}_backward {name}", backward(hg, y, -1, dtype), found[0])


def check_batch_norm(library, table, generator):
    for n, channels, size in ((8, 16, 49), (3, 5, 64), (2, 7, 1024), (16, 64, 9), (4, 4, 3), (2, 3, 196)):
        x = torch.randn(n, channels, size, generator=generator) * 3 + 1
        weight, bias, mean, var = (torch.rand(channels, generator=generator) for _ in range(4))
        found = [torch.empty_like(x), torch.empty(channels), torch.empty(channels), mean.clone(), var.clone()]
        expected = [*A.native_batch_norm(x, weight, bias, mean, var, True, 0.1, 1e-5), mean, var]
        numbers = n, channels, size, ctypes.c_double(0.1), ctypes.c_double(1e-5), 0, channels
        library.batch_norm_f32(*arguments([*found, x, weight, bias, *numbers]))
        for part, e, f in zip(("", " mean", " invstd", " running mean", " running var"), expected, found):
            table.add(f"batch_norm f32{part}", e, f, f"{n}x{channels}x{size}")
        dy, saved = torch.randn(n, channels, size, generator=generator), expected[1:3]
        found = [torch.empty_like(x), torch.empty(channels), torch.empty(channels)]
        expected = A.native_batch_norm_backward(dy, x, weight, None, None, *saved, True, 1e-5, [True] * 3)
        library.batch_norm_backward_f32(*arguments([*found, dy, x, weight, *saved, n, channels, size, 0, channels]))
        for part, e, f in zip(("", " weight", " bias"), expected, found):
            table.add(f"batch_norm_backward f32{part}", e, f, f"{n}x{channels}x{size}")


def check_other_dimensions(library, table, threads, generator):
    """Other dimensions than the last, and equalities between reductions that need no code of their own."""
    for a, b, c in ((1, 50, 33), (3, 7, 64), (2, 100, 5), (4, 33, 100), (1, 10, 1000), (4, 100, 768), (5, 7, 3000)):
        x = torch.randn(a, b, c, generator=generator) * 3
        what = f"{a}x{b}x{c}, {threads} threads"
        out, columns = torch.empty_like(x), a * c
        share = -(-columns // min(threads, columns))
        for low in range(0, columns, share):
            library.softmax_inner_f32(*arguments([out, x, b, c, low, min(low + share, columns)]))
        table.add("softmax f32, another dimension", x.softmax(1), out, what)
        flat, half = x.reshape(a * b, c), x.bfloat16()
        ordered = x[0].sum(-1)
        for part in x[1:]:
            ordered = ordered + part.sum(-1)
        equal = {
            "sum(1) = sum over rows of each part": (x.sum(1), torch.stack([part.sum(0) for part in x])),
            "sum(0, 1) = sum(0) of two dimensions": (x.sum((0, 1)), flat.sum(0)),
            "sum(1, 2) = sum of longer rows": (x.sum((1, 2)), x.reshape(a, -1).sum(-1)),
            "sum(0, 2) = sums of rows in order": (x.sum((0, 2)), ordered),
            "sum of transposed = sum(0)": (flat.t().sum(-1), flat.sum(0)),
            "sum of parts of rows = of copies": (x[:, :, 1:].sum(-1), x[:, :, 1:].contiguous().sum(-1)),
            "sum(0) of halves = rounded once": (half.sum(1), half.float().sum(1).bfloat16()),
            "mean(0) = sum(0) / rows": (flat.mean(0), flat.sum(0) / (a * b)),
            "mean of all = sum / count": (x.mean(), x.sum() / x.numel()),
            "var(0) = var of transposed rows": (flat.var(0), flat.t().contiguous().var(-1)),
            "mse_loss mean = mean of mse": (F.mse_loss(x, x.flip(2)), ((x - x.flip(2)) ** 2).mean()),
        }
        for name, (expected, found) in equal.items():
            table.add(name, expected, found, what)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,2,4")
    options = parsed(parser)
    library = compile_c("".join(path.read_text() for path in REDUCTIONS), options.capability)
    print(header(options.capability))
    table, generator = Table(), torch.Generator().manual_seed(3)
    for threads in [int(t) for t in options.threads.split(",")]:
        torch.set_num_threads(threads)
        for rows, columns in SHAPES:
            for scale in (1.0, 30.0, MASKED):
                check(library, table, rows, columns, scale, threads, generator)
        check_batch_norm(library, table, generator)
        check_other_dimensions(library, table, threads, generator)
    table.print()
    return int(any(row[0] for row in table.rows.values()))


if __name__ == "__main__":
    sys.exit(main())
