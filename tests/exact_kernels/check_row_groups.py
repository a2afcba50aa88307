"""Compares kernels over rows with eager ATen, bit by bit: random graphs of reductions with pointwise nodes around them.
With `--level close`, compares their errors against float64."""

import argparse
import ctypes
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter

import torch

from check import TORCH_DTYPE
from check_groups import CALLS, FLAGS, Case, compared, in_float64, part_size, value_of, widened
from program import load, onednn_level, parsed

A = torch.ops.aten
SHAPES = [
    (5, 8), (7, 31), (64, 100), (33, 768), (3, 5, 17), (2, 3, 1000), (4, 4097), (128, 64), (1, 33), (1, 40000),
    (300, 260), (2000, 40), (6, 2), (3, 16), (16, 15), (9, 127), (50, 1024), (4, 8, 12, 24), (3, 70000), (700, 129), (700, 12), (90, 36),
]  # fmt: skip
IMAGES = [
    (2, 3, 4, 4), (4, 16, 7, 7), (8, 64, 14, 14), (3, 5, 9, 11), (1, 8, 6, 6), (5, 2, 33), (2, 16, 3, 5, 7),
    (6, 130, 2, 2), (3, 9, 1, 40), (4, 7, 56, 57), (64, 12, 3, 1), (2, 17, 5, 5),
]  # fmt: skip
SPLIT_ROWS, SPLIT_WHOLE = 2, 3
# Operators of one or two operands that have the same bits wherever an element lies, and some that have not.
POINTWISE = [(name, words) for name, words in CALLS if not set(words) & set("?!#@$")]
PLAIN = ["add.Tensor", "mul.Tensor", "sub.Tensor", "neg.default", "relu.default", "mul.Scalar", "maximum.default"]
REDUCTIONS = ["softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "layer_norm",
              "layer_norm_backward", "nll_loss_backward", "sum", "mean", "amax", "amin", "columns",
              "batch_norm", "batch_norm_backward", "max_pool"]  # fmt: skip


class RowCase(Case):
    """A random graph whose nodes are reductions of the last dimensions and pointwise operators."""

    def __init__(self, rng, dtype, shape, reductions):
        # Max pooling stands alone, and a group with batch normalisations has no other reductions.
        pooled = "max_pool" in reductions and (len(reductions) == 1 or rng.random() < 0.05)
        reductions = ["max_pool"] if pooled else [r for r in reductions if r != "max_pool"]
        channels = [r for r in reductions if "batch_norm" in r]
        if channels and (len(channels) == len(reductions) or rng.random() < 0.2):
            reductions, dtype, shape = channels, "f32", rng.choice(IMAGES)
        else:
            reductions = [r for r in reductions if r not in channels]
        if pooled:
            dtype, shape = "f32", rng.choice([s for s in IMAGES if len(s) == 4])
        self.rng, self.dtype, self.shape = rng, dtype, shape
        self.generator = torch.Generator().manual_seed(rng.getrandbits(30))
        self.inputs, self.nodes, self.program, self.meta, self.values = [], [], [], {}, 0
        # Sums over many elements that include infinities tell nothing.
        self.kinds = rng.choice([["n1", "n4"], Case.kinds])
        if pooled:
            self.add_input(self.tensor(shape, "whole", dtype))
            while not self.nodes:
                self.max_pool()
            return
        # How many of the last dimensions are a row.
        self.dims = rng.randint(1, len(shape) - 1) if len(shape) > 2 and rng.random() < 0.3 else 1
        self.dims = 1 if reductions is channels else self.dims
        # A group with column sums has no other reductions.
        columns = "columns" in reductions and (len(reductions) == 1 or rng.random() < 0.2)
        self.reductions = ["columns"] if columns else [r for r in reductions if r != "columns"]
        self.reductions = [r for r in self.reductions if self.dims == 1 or "softmax" not in r]
        self.reductions = [r for r in self.reductions if len(shape) == 2 or "nll" not in r] or ["sum"]
        layouts = rng.choices(["whole", "whole", "row", "column", "one", "part", "transposed"], k=rng.randint(0, 2))
        first = "transposed" if self.reductions != ["columns"] and rng.random() < 0.2 else "whole"
        for layout in [first, *layouts]:
            self.add_input(self.tensor(shape, layout, dtype))
        for _ in range(rng.choice([0, 0, 1, 2])):
            self.pointwise()
        for _ in range(rng.choice([1, 1, 1, 2])):
            self.reduce(rng.choice(self.reductions))
            for _ in range(rng.choice([0, 1, 2, 3])):
                self.pointwise()

    def full(self):
        """A value with all elements, preferably the last one."""
        numbers = [n for n, t in self.meta.items() if tuple(t.shape) == self.shape and t.dtype == TORCH_DTYPE[self.dtype]]
        return numbers[-1] if self.rng.random() < 0.7 else self.rng.choice(numbers)

    def input_like(self, shape):
        return self.add_input(self.tensor(shape, "whole", self.dtype))

    def pointwise(self):
        rng = self.rng
        plain = rng.random() < 0.8
        name, arguments = rng.choice([c for c in POINTWISE if (c[0] in PLAIN) == plain])
        words = []
        fitting = [n for n, t in self.meta.items() if t.dtype == TORCH_DTYPE[self.dtype]]
        for word in arguments.split(", "):
            operand = fitting[-1] if not words and rng.random() < 0.8 else rng.choice(fitting)
            words.append(f"%{operand}" if word == "{}" else word)
        self.run("aten::" + name, words)

    def reduce(self, kind):
        rng, dims, shape = self.rng, self.dims, self.shape
        last = rng.choice(["-1", str(len(shape) - 1)])
        row = shape[1:2] if "batch_norm" in kind else shape[len(shape) - dims :]
        listed = "[" + ", ".join(str(d - dims) for d in range(dims)) + "]"
        sizes = "[" + ", ".join(map(str, row)) + "]"
        x = self.full()
        weights = [f"%{self.input_like(row)}" if rng.random() < 0.7 else "none" for _ in range(2)]
        if kind in ("softmax", "log_softmax"):
            self.run(f"aten::_{kind}.default", [f"%{x}", last, "false"])
        elif kind.endswith("softmax_backward"):
            y = self.input_like(shape)
            name = kind.replace("_backward", "_backward_data")
            operands = [x, y] if rng.random() < 0.7 else [y, x]
            self.run(f"aten::_{name}.default", [f"%{operands[0]}", f"%{operands[1]}", last, self.dtype])
        elif kind == "layer_norm":
            self.run("aten::native_layer_norm.default", [f"%{x}", sizes, *weights, rng.choice(["1e-05", "0.1"])])
        elif kind == "layer_norm_backward":
            outer = (*shape[: len(shape) - dims], *[1] * dims)
            mean, rstd = self.input_like(outer), self.input_like(outer)
            g = self.full() if rng.random() < 0.3 else self.input_like(shape)
            self.run(
                "aten::native_layer_norm_backward.default",
                [f"%{x}", f"%{g}", sizes, f"%{mean}", f"%{rstd}", *weights, self.mask(weights)],
            )
        elif kind == "batch_norm":
            statistics = [f"%{self.input_like(row)}" for _ in range(2)]
            numbers = ["true", rng.choice(["0.1", "0.3"]), rng.choice(["1e-05", "0.1"])]
            words = [f"%{x}", *weights, *statistics, *numbers]
            self.run("aten::_native_batch_norm_legit_functional.default", words)
        elif kind == "batch_norm_backward":
            statistics = [f"%{self.input_like(row)}" for _ in range(4)]
            operands = [f"%{x}", f"%{self.input_like(shape) if rng.random() < 0.8 else self.full()}"]
            mask = "[true, " + ", ".join(rng.choice(["true", "true", "false"]) for _ in range(2)) + "]"
            words = [*(operands if rng.random() < 0.8 else operands[::-1]), weights[0], *statistics, "true", "1e-05", mask]
            self.run("aten::native_batch_norm_backward.default", words)
        elif kind == "nll_loss_backward":
            rows, classes = shape
            ignored = rng.choice([-100, 0, classes - 1])
            target = torch.randint(0, classes, (rows,), generator=self.generator)
            target[torch.rand(rows, generator=self.generator) < 0.2] = ignored
            target = self.add_input(target)
            reduction = rng.choice([0, 1, 1, 1, 2])
            g, total = self.input_like((rows,) if reduction == 0 else ()), self.input_like(())
            words = [g, x, target, "none", str(reduction), str(ignored), total]
            words = [f"%{w}" if isinstance(w, int) else w for w in words]
            self.run("aten::nll_loss_backward.default", words)
        elif kind == "sum_all":
            self.run(f"aten::{rng.choice(['sum', 'mean'])}.default", [f"%{x}", "dtype=none"])
        elif kind in ("amax", "amin"):
            if rng.random() < 0.5:  # zeros of both signs
                x = self.run("aten::mul.Scalar", [f"%{x}", "scalar(0)"])
            self.run(f"aten::{kind}.default", [f"%{x}", listed, rng.choice(["true", "true", "false"])])
        elif kind == "columns":
            listed = "[" + ", ".join(str(d) for d in range(len(shape) - dims)) + "]"
            name = rng.choice(["sum.dim_IntList", "mean.dim"])
            self.run(f"aten::{name}", [f"%{x}", listed, rng.choice(["true", "true", "false"]), "none"])
        else:
            name = {"sum": "sum.dim_IntList", "mean": "mean.dim"}[kind]
            self.run(f"aten::{name}", [f"%{x}", listed, rng.choice(["true", "true", "false"]), "none"])

    def max_pool(self):
        """Windows that eager takes, most of them."""
        pair = lambda low, high: [self.rng.randint(low, high), self.rng.randint(low, high)]
        size, stride, dilation = pair(1, 3), pair(1, 4), pair(1, 2) if self.rng.random() < 0.2 else [1, 1]
        padding = [self.rng.randint(0, n // 2) for n in size]
        words = [str(pair) for pair in (size, stride, padding, dilation)]
        self.run("aten::max_pool2d_with_indices.default", ["%0", *words, self.rng.choice(["true", "false"])])

    def mask(self, weights):
        """Which gradients of a layer normalisation: those of what there is."""
        wanted = [True, *[w != "none" and weights[0] != "none" and self.rng.random() < 0.7 for w in weights]]
        return "[" + ", ".join(str(w).lower() for w in wanted) + "]"

    def value(self, word):
        if word.startswith("%"):
            return ("tensor", int(word[1:]))
        if word in TORCH_DTYPE:
            return TORCH_DTYPE[word]
        if word.startswith("[true, "):
            return [w == "true" for w in word.strip("[]").split(", ")]
        return value_of(word)

    def run(self, name, words, base=None):
        packet, overload = name[6:].split(".")
        function = getattr(getattr(A, packet), overload)
        values, keywords = [], {}
        for word, argument in zip(words, function._schema.arguments):
            value = self.value(word)
            (keywords.__setitem__(argument.name, value) if argument.kwarg_only else values.append(value))
        pick = lambda table, v: table[v[1]] if isinstance(v, tuple) else v
        run = lambda table, wide=False: function(
            *[in_float64(pick(table, v), wide) for v in values],
            **{k: in_float64(pick(table, v), wide) for k, v in keywords.items()},
        )
        try:
            made = run(self.meta)
        except RuntimeError:  # operands that eager does not broadcast
            return
        made = made if isinstance(made, (tuple, list)) else [made]
        numbers = []
        for tensor in made:
            numbers.append(None if tensor is None or tensor.numel() == 0 else self.fresh())
            if numbers[-1] is not None:
                self.meta[numbers[-1]] = tensor
        if tuple(made[0].shape) == self.shape:  # the last value is what follows reads
            self.meta[numbers[0]] = self.meta.pop(numbers[0])
        self.program.append((numbers, run))
        defined = ", ".join("none" if n is None else f"%{n}: {self.text_of(t)}" for n, t in zip(numbers, made))
        self.nodes.append((numbers, f"  {defined} = {name}({', '.join(words)})"))
        return numbers[0]

    def text(self):
        # What the last value is computed from, as in a group.
        last = [n for n in self.nodes[-1][0] if n is not None]
        self.results = {last[0]} | {n for n in last if self.rng.random() < 0.5}
        needed, kept = set(self.results), []
        for numbers, line in reversed(self.nodes):
            if needed.isdisjoint(n for n in numbers if n is not None):
                continue
            needed |= {int(w) for w in re.findall(r"%(\d+)", line.split(" = ", 1)[1])}
            self.results |= {n for n in numbers if n is not None and self.rng.random() < 0.2}
            kept.append(line)
        lines = ['antegrad.graph 1 "case"', "inputs"]
        lines += [f"  %{n}: {self.text_of(t)} primal argument {i}" for i, (n, t) in enumerate(self.inputs)]
        lines += ["nodes", *reversed(kept), "outputs", *[f"  %{n} result" for n in sorted(self.results)]]
        return "\n".join(lines) + "\n----\n"

    def eager(self, wide=False):
        table = {number: widened(tensor) if wide else tensor for number, tensor in self.inputs}
        for numbers, run in self.program:
            made = run(table, wide)
            for number, tensor in zip(numbers, made if isinstance(made, (tuple, list)) else [made]):
                table[number] = tensor
        return table


def run_kernel(library, line, case, threads, expected):
    words = line.split()
    numbers, buffers, split, parallel = words[5].split(","), words[7].split(","), int(words[3]), int(words[9])
    tensors, written, sums = [], {}, {}
    for buffer in buffers:
        number = int(buffer.rstrip("+*"))
        if buffer.endswith("*"):
            dtype = torch.promote_types(expected[number].dtype, torch.float32)
            sums[number] = torch.zeros(threads, expected[number].numel(), dtype=dtype)
            tensors.append(sums[number])
        elif buffer.endswith("+"):
            like = expected[number]
            if number not in written:  # one that is stored in parts has several buffers
                written[number] = torch.full_like(like, 77)
            tensors.append(written[number])
        else:
            tensors.append(dict(case.inputs)[number])
    addresses = (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])
    arguments = (ctypes.c_long * len(numbers))(*[int(n) for n in numbers])
    if split == SPLIT_WHOLE:
        size = parallel
    elif split == SPLIT_ROWS:  # any parts, unless they are eager's
        size = -(-parallel // (threads + (0 if sums else case.rng.randint(0, 3))))
    else:
        size = part_size(split, parallel, threads)
    for low in range(0, parallel, max(1, size)):
        high = min(parallel, low + size)
        part = ctypes.c_long(low // max(1, size))
        getattr(library, words[1])(addresses, arguments, ctypes.c_long(low), ctypes.c_long(high), part)
    for number, parts in sums.items():
        total = torch.zeros(parts.shape[1], dtype=parts.dtype)
        for part in parts:
            total += part
        written[number] = total.to(expected[number].dtype).reshape(expected[number].shape)
    return written


def check(options, level, threads, cases):
    """Prints which results differ, and returns the cases that have some."""
    texts, capability = [case.text() for case in cases], options.capability
    torch.set_num_threads(threads)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="check_row_groups_"))
    source = folder / "kernels.c"
    answer = subprocess.run(
        [options.tool, capability, str(onednn_level()), source, str(threads), level],
        input="".join(texts), text=True, capture_output=True,
    )  # fmt: skip
    if answer.returncode:
        (folder / "graphs.txt").write_text("".join(texts))
        raise SystemExit(f"{answer.stderr}\nin {folder}")
    library = load(source, capability, FLAGS)
    reasons, elements, wrong, kernels, faults = Counter(), 0, [], 0, []
    for case, text, line in zip(cases, texts, answer.stdout.splitlines()):
        if line.startswith("no "):
            reasons[line[3:]] += 1
            continue
        kernels += 1
        expected = case.eager()
        wide = {}
        for number, tensor in run_kernel(library, line, case, threads, expected).items():
            elements += tensor.numel()
            if reason := compared(options, case, number, tensor, expected[number], wide):
                faults.append(f"%{number}, {threads} threads: {reason}\n{text}{line}")
                if case not in wrong:
                    wrong.append(case)
    if level == "exact" and wrong:
        print(f"{len(wrong)} graphs differ in the first forms of recipes, so their second forms are tried")
    else:
        print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{capability}, {threads} threads: {kernels} of {len(cases)} graphs have a kernel; "
          f"{elements} elements compared, {len(faults)} results differ")
    for reason, count in reasons.most_common():
        print(f"  {count:4d} {reason}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the program group_kernels")
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtypes", default="f32,bf16,f16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--reductions", default=",".join(REDUCTIONS))
    parser.add_argument("--level", choices=["exact", "close", "second"], default="exact",
                        help="exact: with the first forms of recipes or, as in programs, the second ones where those "
                             "differ; second: with the second ones")  # fmt: skip
    options = parsed(parser)
    rng = random.Random(options.seed)
    reductions = options.reductions.split(",")
    cases = [
        RowCase(rng, rng.choice(options.dtypes.split(",")), rng.choice(SHAPES), reductions) for _ in range(options.graphs)
    ]

    def fails(threads):
        wrong = check(options, options.level, threads, cases)
        return bool(check(options, "second", threads, wrong) if wrong and options.level == "exact" else wrong)

    return int(any([fails(int(threads)) for threads in options.threads.split(",")]))


if __name__ == "__main__":
    sys.exit(main())
