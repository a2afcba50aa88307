#!/usr/bin/env python3
"""Generated kernels beside eager, Inductor and a copy of as many bytes.

    kernels.py --out FILE [--quick] [--threads N] [--rows NAME ...] [--tool PROGRAM]

exact_ms, close_ms: of the kernels at these levels. Peers: eager and inductor (torch.compile), the same operators; copy, which
reads and writes as many bytes as the kernels, past the caches or not, whichever is faster. All memory was written before: the
allocator gives none back, since new pages take longer than most kernels. All run in turns, each for 50 ms before it is timed,
since a large third cache holds what a kernel touches only after eight runs or more; medians. Results are compared before,
those of exact kernels with eager's bits. PROGRAM is group_kernels, which makes the kernels; that of the build folder where it
is left out.
Writes rows for scripts/bench_table.
"""

import ctypes
import pathlib
import statistics
import sys
import time
import types

import torch
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests/exact_kernels"))

import antegrad
from common.program import arguments_of, write
from timed import Compiler, Copy, Group, Ready, clocked

LEVELS = ("exact", "close")
KEEP = 0.9  # of a dropout
TO_F32 = ["dtype=f32", *["none"] * 3, "false", "none"]


def dropped(g, x):
    """A dropout whose draws are bools, as antegrad::draw_bools makes them."""
    kept = g.op("_to_copy.default", g.input(dtype=torch.bool), *TO_F32)
    return g.op("mul.Tensor", x, g.op("div.Scalar", kept, f"scalar({KEEP})"))


def bias_gelu_dropout(g, approximate):
    x = g.op("add.Tensor", g.input(), g.input(g.shape[-1:]), "scalar(1)")
    return [dropped(g, g.op("gelu.default", x, f'approximate="{approximate}"'))]


def bias_gelu_dropout_backward(g, approximate):
    gradient = dropped(g, g.input())
    x = g.op("add.Tensor", g.input(), g.input(g.shape[-1:]), "scalar(1)")
    y = g.op("gelu_backward.default", gradient, x, f'approximate="{approximate}"')
    return [y, g.op("sum.dim_IntList", y, "[0]", "false", "none")]


def layer_norm(g):
    words = [g.input(), f"[{g.shape[-1]}]", g.input(g.shape[-1:]), g.input(g.shape[-1:]), "1e-05"]
    y = g.op("native_layer_norm.default", *words)
    return [y, y + 1, y + 2]


def layer_norm_backward(g):
    gradient, x = g.input(), g.input()
    mean, rstd = (g.add_input(t) for t in torch.ops.aten.native_layer_norm(g.meta[x], g.shape[-1:], None, None, 1e-5)[1:])
    weights = [g.input(g.shape[-1:]) for _ in range(2)]
    words = [gradient, x, f"[{g.shape[-1]}]", mean, rstd, *weights, "[true, true, true]"]
    y = g.op("native_layer_norm_backward.default", *words)
    return [y, y + 1, y + 2]


def classes(g):
    """Targets, the mean loss's gradient, and how many targets count."""
    targets = torch.randint(g.shape[-1], g.shape[:1], generator=g.generator)
    return [g.add_input(t) for t in (targets, torch.ones(()), torch.tensor(float(g.shape[0])))]


def log_softmax(g):
    return [g.op("_log_softmax.default", g.input(), "-1", "false")]


def loss_backward(g, y, targets, gradient, total):
    x = g.op("nll_loss_backward.default", gradient, y, targets, "none", "1", "-100", total)
    return g.op("_log_softmax_backward_data.default", x, y, "-1", g.dtype)


def cross_entropy_backward(g):
    y = g.add_input(torch.log_softmax(g.meta[g.input()], -1))
    return [loss_backward(g, y, *classes(g))]


def cross_entropy_again(g):
    return [loss_backward(g, *log_softmax(g), *classes(g))]


def cross_entropy(g):
    """All operators of a loss and its gradient; one of them has no kernel."""
    x = g.input()
    targets, gradient, total = classes(g)
    y = g.op("_log_softmax.default", x, "-1", "false")
    loss = g.op("nll_loss_forward.default", y, targets, "none", "1", "-100")
    return [loss, loss_backward(g, y, targets, gradient, total)]


def row(shape, make, *arguments, parts=None, in_place=False):
    """`parts`: groups that become kernels; all of it is one where they are left out. `in_place`: results lie in memory of the
    first operand, as in programs where nobody else reads it."""
    whole = lambda g: make(g, *arguments)
    return types.SimpleNamespace(shape=shape, whole=whole, parts=parts or [whole], in_place=in_place)


WIDE, ROWS, LOGITS = (4096, 3072), (4096, 768), (512, 50304)
CASES = {
    "bias_gelu_dropout": row(WIDE, bias_gelu_dropout, "none"),
    "bias_gelu_dropout_backward": row(WIDE, bias_gelu_dropout_backward, "none"),
    "bias_gelu_tanh_dropout": row(WIDE, bias_gelu_dropout, "tanh"),
    "bias_gelu_tanh_dropout_backward": row(WIDE, bias_gelu_dropout_backward, "tanh"),
    "layer_norm": row(ROWS, layer_norm),
    "layer_norm_backward": row(ROWS, layer_norm_backward),
    "cross_entropy": row(LOGITS, cross_entropy, parts=[log_softmax, cross_entropy_backward], in_place=True),
    "cross_entropy_again": row(LOGITS, cross_entropy_again),
}
DRAWS = "bernoulli"


def keep_memory():
    """Makes malloc() serve all sizes from memory that it keeps."""
    M_MMAP_MAX, M_TRIM_THRESHOLD = -4, -1
    libc = ctypes.CDLL(None)
    assert libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def group_of(make, shape):
    group = Group("f32", shape)
    group.results = set(make(group))
    return group


def function_of(group):
    """The group as a function of its inputs."""
    numbers, results = [n for n, _ in group.inputs], sorted(group.results)

    def run(*tensors):
        table = dict(zip(numbers, tensors))
        for made, node in group.program:
            values = node(table)
            table |= zip(made, values if isinstance(values, (tuple, list)) else [values])
        return [table[n] for n in results]

    return make_fx(run)(*[t for _, t in group.inputs])


def kernels_of(name, case, level, compiler, threads):
    """The kernels of a row, whose results are those of eager."""
    made = []
    for index, make in enumerate(case.parts):
        group = group_of(make, case.shape)
        line, target, _ = compiler.compiled(f"{name}_{index}", group, level, threads)
        expected = group.eager()
        kernel = Ready(compiler, line, target, group, expected, threads)
        kernel.seconds()
        if faults := kernel.faults(types.SimpleNamespace(level=level)):
            if level == "exact":
                raise SystemExit(f"{name}: {faults}")
            print(f"  {name}, close: {faults}")
        if case.in_place:
            place = {min(group.results): group.inputs[0][0]}
            kernel = Ready(compiler, line, target, group, expected, threads, place)
        made.append(kernel)
    return made


def variants_of(name, case, compiler, threads):
    """What is timed, by name: each returns its seconds."""
    kernels = {level: kernels_of(name, case, level, compiler, threads) for level in LEVELS}
    whole = group_of(case.whole, case.shape)
    function, inputs = function_of(whole), [t for _, t in whole.inputs]
    fused = torch.compile(function)
    read, written = (sum(getattr(k, f"bytes_{way}")() for k in kernels["exact"]) for way in ("read", "written"))
    copy = Copy(compiler, read, written, threads)
    print(f"  {name}: {read / 1e6:.1f} MB read, {written / 1e6:.1f} MB written")
    return {
        **{level: lambda level=level: sum(k.seconds() for k in kernels[level]) for level in LEVELS},
        "eager": lambda: clocked(lambda: function(*inputs), threads),
        "inductor": lambda: clocked(lambda: fused(*inputs), threads),
        "copy": lambda: copy.seconds(False),
        "copy past the caches": lambda: copy.seconds(True),
    }


def draws(compiler, threads):
    """`bernoulli_` of a dropout. Our draws are eager's, so both levels are one; they do not run on several threads."""
    mask = torch.empty(WIDE)
    fused = torch.compile(lambda x: x.bernoulli_(KEEP))
    ours = lambda: torch.ops.antegrad.draw_bools(WIDE, KEEP, torch.float32)
    copy = Copy(compiler, 0, mask.numel(), threads)
    return {
        **{level: lambda: clocked(ours, threads) for level in LEVELS},
        "eager": lambda: clocked(lambda: mask.bernoulli_(KEEP), threads),
        "inductor": lambda: clocked(lambda: fused(mask), threads),
        "copy": lambda: copy.seconds(False),
        "copy past the caches": lambda: copy.seconds(True),
    }


# After so many runs and seconds times no longer fall. A large third cache takes eight runs or more to hold what a kernel touches.
WARM_UP_RUNS, WARM_UP_SECONDS = 3, 0.05


def warm_up(run):
    start, runs = time.perf_counter(), 0
    while runs < WARM_UP_RUNS or time.perf_counter() - start < WARM_UP_SECONDS:
        run()
        runs += 1


def medians(variants, rounds):
    """Milliseconds."""
    times = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name in list(variants) if turn % 2 else reversed(variants):
            warm_up(variants[name])
            times[name].append(variants[name]() * 1e3)
    return {name: statistics.median(list(of)[1:]) for name, of in times.items()}


def main():
    tool = pathlib.Path(antegrad.__file__).parents[2] / "tests/group_kernels"

    def add(parser):
        parser.add_argument("--rows", nargs="+", default=[*CASES, DRAWS], choices=[*CASES, DRAWS])
        parser.add_argument("--tool", default=tool)
        parser.add_argument("--keep", help="a folder for the files in C")

    arguments = arguments_of(__doc__, add)
    keep_memory()
    torch.set_num_threads(arguments.threads)
    compiler = Compiler(arguments.tool, arguments.keep)
    rows = []
    for name in arguments.rows:
        torch._dynamo.reset()
        variants = draws(compiler, arguments.threads) if name == DRAWS else None
        variants = variants or variants_of(name, CASES[name], compiler, arguments.threads)
        ms = medians(variants, 7 if arguments.quick else 31)
        ms["copy"] = min(ms["copy"], ms.pop("copy past the caches"))
        for level in LEVELS:
            for peer in ("eager", "inductor", "copy"):
                rows.append({"bench": "kernels", "case": name, "metric": f"{level}_ms", "unit": "ms", "value": ms[level],
                             "peer": peer, "peer_value": ms[peer], "ratio": ms[level] / ms[peer]})  # fmt: skip
    write(arguments, rows)


if __name__ == "__main__":
    sys.exit(main())
