"""Times kernels of common groups of training: how long the compiler takes, and how long they run beside eager ATen. Each
result is also compared with eager's, bit by bit."""

import argparse
import ctypes
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import torch

from check import TORCH_DTYPE, differences
from check_row_groups import RowCase, SPLIT_ROWS, SPLIT_WHOLE, part_size
from program import TARGET, onednn_level

# Those of src/kernels/compiler.cpp.
FLAGS = (
    "-std=gnu11 -O2 -fPIC -shared -w -fwrapv -fno-strict-aliasing -fno-math-errno -fno-trapping-math -ffp-contract=off"
    " -fno-builtin -nostartfiles -nodefaultlibs -fno-stack-protector -fno-plt -Wno-psabi"
).split()
DRIVER = """
#include <omp.h>
#include <time.h>
typedef void Kernel(char* const*, const long*, long, long, long);
double once(Kernel* kernel, char* const* buffers, const long* numbers, long all, long part, int threads) {
  struct timespec a, b;
  const int clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  clock_gettime(clock, &a);
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
  for (long i = 0; i < (all + part - 1) / part; i++)
    kernel(buffers, numbers, i * part, (i + 1) * part < all ? (i + 1) * part : all, i);
  clock_gettime(clock, &b);
  return b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9;
}
"""
GELU = ['approximate="none"', 'approximate="tanh"']
COLUMNS = ["[0]", "false", "none"]


class Group(RowCase):
    """A group made by hand. Values are numbers, as in the text of a graph."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape
        self.generator = torch.Generator().manual_seed(1)
        self.inputs, self.nodes, self.program, self.meta, self.values = [], [], [], {}, 0
        self.results = set()

    def input(self, shape=None, dtype=None):
        data = torch.randn(shape or self.shape, generator=self.generator)
        return self.add_input(data > 0 if dtype == torch.bool else data.to(dtype or TORCH_DTYPE[self.dtype]))

    def op(self, name, *words):
        before = self.values
        self.run("aten::" + name, [f"%{w}" if isinstance(w, int) else w for w in words])
        assert self.values > before, name
        return before

    def value(self, word):
        return super().value(word.removeprefix("dtype="))

    def text(self):
        lines = ['antegrad.graph 1 "case"', "inputs"]
        lines += [f"  %{n}: {self.text_of(t)} primal argument {i}" for i, (n, t) in enumerate(self.inputs)]
        lines += ["nodes", *[line for _, line in self.nodes], "outputs", *[f"  %{n} result" for n in sorted(self.results)]]
        return "\n".join(lines) + "\n----\n"


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


def user_seconds(run):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compiled(name, group, options, folder, capability, threads):
    source, target = folder / f"{name}_{threads}.c", folder / f"{name}_{threads}.so"
    answer = subprocess.run(
        [options.tool, capability, str(onednn_level()), source, str(threads)],
        input=group.text(), text=True, capture_output=True,
    )  # fmt: skip
    if answer.returncode or answer.stdout.startswith("no "):
        raise SystemExit(f"{name}: {answer.stderr}{answer.stdout}\n{group.text()}")
    command = [os.environ.get("CC", "gcc"), *FLAGS, *TARGET[capability], *options.flags.split(), str(source), "-o", str(target)]
    seconds = user_seconds(lambda: subprocess.run(command, check=True))
    return answer.stdout, target, seconds


class Ready:
    """A kernel with its arguments."""

    def __init__(self, line, target, group, expected, threads):
        words = line.split()
        numbers, split, self.all = words[5].split(","), int(words[3]), int(words[9])
        self.written, self.tensors = {}, []
        for buffer in words[7].split(","):
            number = int(buffer.rstrip("+"))
            if buffer.endswith("+"):
                self.written[number] = torch.full_like(expected[number], 77)
            self.tensors.append(self.written[number] if buffer.endswith("+") else dict(group.inputs)[number])
        self.buffers = (ctypes.c_void_p * len(self.tensors))(*[t.data_ptr() for t in self.tensors])
        self.numbers = (ctypes.c_long * len(numbers))(*[int(n) for n in numbers])
        self.part = self.all if split == SPLIT_WHOLE else part_size(split, self.all, threads)
        if split == SPLIT_ROWS:
            self.part = -(-self.all // threads)
        self.function = getattr(ctypes.CDLL(str(target)), words[1])

    def megabytes(self):
        storage = lambda t: t.numel() * t.element_size()
        return sum(map(storage, self.tensors)) / 1e6


def best(run, seconds, least=5):
    times, end = [], time.monotonic() + seconds
    while len(times) < least or time.monotonic() < end:
        times.append(run())
    return min(times)


def clocked(run, threads):
    """Seconds; of the CPU for one thread, which others that run beside it do not disturb."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the program group_kernels")
    parser.add_argument("cases", nargs="*", help="all, when left out")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--flags", default="", help="more flags for the compiler")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each is repeated; the least time counts")
    parser.add_argument("--keep", help="a folder for the files in C")
    parser.add_argument("--compile-only", action="store_true")
    options = parser.parse_args()
    capability = torch.backends.cpu.get_cpu_capability().lower()
    capability = capability if capability in TARGET else "default"
    folder = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="time_groups_"))
    folder.mkdir(parents=True, exist_ok=True)
    driver = folder / "driver.so"
    subprocess.run(["gcc", "-O2", "-fopenmp", "-shared", "-fPIC", "-x", "c", "-", "-o", driver], input=DRIVER, text=True, check=True)
    libtorch = pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"
    ctypes.CDLL(str(libtorch), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    once = ctypes.CDLL(str(driver)).once
    once.restype, once.argtypes = ctypes.c_double, [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2 + [ctypes.c_int]
    print(f"{capability}: {'case':24s} type threads compile [ms] kernel [us] eager [us] ratio  GB/s")
    for name in options.cases or CASES:
        make, shape = CASES[name]
        for dtype in options.dtypes.split(",") if "batch_norm" not in name else ["f32"]:
            group = Group(dtype, shape)
            group.results = set(make(group))
            for threads in map(int, options.threads.split(",")):
                torch.set_num_threads(threads)
                line, target, seconds = compiled(f"{name}_{dtype}", group, options, folder, capability, threads)
                if options.compile_only:
                    print(f"{name:33s} {dtype:4s} {threads:7d} {seconds * 1e3:12.0f}", flush=True)
                    continue
                expected = group.eager()
                ready = Ready(line, target, group, expected, threads)
                kernel = lambda: once(ready.function, ready.buffers, ready.numbers, ready.all, ready.part, threads)
                mine = best(kernel, options.seconds)
                theirs = best(lambda: clocked(group.eager, threads), options.seconds)
                mine = min(mine, best(kernel, options.seconds))
                wrong = sum(int(differences(expected[n], t)[0].sum()) for n, t in ready.written.items() if t.dtype != torch.bool)
                print(f"{name:33s} {dtype:4s} {threads:7d} {seconds * 1e3:12.0f} {mine * 1e6:11.0f} {theirs * 1e6:10.0f} "
                      f"{mine / theirs:5.2f} {ready.megabytes() / mine / 1e3:5.1f}{f'  {wrong} DIFFER' if wrong else ''}",
                      flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
