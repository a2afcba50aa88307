"""Compares kernels of whole groups with eager ATen, bit by bit: random graphs of pointwise nodes. With `--level close`,
compares their errors against float64."""

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

from check import TORCH_DTYPE, differences, random_values
from closeness import close_errors
from program import header, load, onednn_level, parsed
from recipes import ROOT

A = torch.ops.aten
INTEGERS = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}
TYPES = {**TORCH_DTYPE, **INTEGERS, "bool": torch.bool}
NAME = {t: n for n, t in TYPES.items()}
# Those of generated kernels, besides those of the recipes.
FLAGS = ["-fno-builtin", "-w", "-fwrapv", "-fno-strict-aliasing"]
SHAPES = [(1,), (7,), (33, 50), (65,), (3, 40, 17), (1500, 77), (32768,), (100003,), (4, 1, 33), (16, 64, 48), (3, 40, 40)]
UNARY = (
    "neg abs sign floor ceil trunc round reciprocal sqrt rsqrt relu exp exp2 expm1 log log2 log10 log1p sin cos"
    " tan asin acos atan tanh erf erfc sinh cosh sigmoid silu mish hardswish hardsigmoid"
).split()
# Name and arguments. In place of tensors: {} floating-point ones of one type, ? bools, # integers of one type, @ any.
CALLS = [
    *[(f"{name}.default", "{}") for name in UNARY],
    *[("add.Tensor", f"{{}}, {{}}, alpha=scalar({a})") for a in (1, 1, 1, -1.0, 0.3)],
    *[("sub.Tensor", f"{{}}, {{}}, alpha=scalar({a})") for a in (1, 0.7)],
    *[("mul.Tensor", "{}, {}")] * 4,
    *[("div.Tensor", "{}, {}")] * 2,
    ("add.Tensor", "{}, wrapped(0.3 : f64), alpha=scalar(1)"),
    ("add.Tensor", "{}, wrapped(1.7 : f64), alpha=scalar(0.3)"),
    ("mul.Tensor", "{}, wrapped(0.3 : f64)"),
    ("mul.Scalar", "{}, scalar(0.7)"),
    ("div.Tensor", "{}, wrapped(3.0 : f64)"),
    ("rsub.Scalar", "{}, scalar(1), scalar(1)"),
    ("maximum.default", "{}, {}"),
    ("minimum.default", "{}, {}"),
    ("pow.Tensor_Scalar", "{}, scalar(2)"),
    ("pow.Tensor_Scalar", "{}, scalar(3)"),
    ("pow.Tensor_Scalar", "{}, scalar(0.5)"),
    ("pow.Tensor_Scalar", "{}, scalar(2.5)"),
    ("pow.Tensor_Tensor", "{}, {}"),
    ("addcmul.default", "{}, {}, {}, value=scalar(0.3)"),
    ("addcdiv.default", "{}, {}, {}, value=scalar(1)"),
    ("lerp.Scalar", "{}, {}, scalar(0.1)"),
    ("clamp.default", "{}, scalar(-0.5), scalar(0.75)"),
    ("clamp_min.default", "{}, scalar(0.3)"),
    ("where.self", "?, {}, {}"),
    ("masked_fill.Scalar", "{}, ?, scalar(0.3)"),
    ("native_dropout_backward.default", "{}, ?, 1.25"),
    ("gt.Scalar", "{}, scalar(0.1)"),
    ("le.Tensor", "{}, {}"),
    ("sigmoid_backward.default", "{}, {}"),
    ("tanh_backward.default", "{}, {}"),
    ("threshold_backward.default", "{}, {}, scalar(0)"),
    ("leaky_relu.default", "{}, scalar(0.01)"),
    ("elu.default", "{}, scalar(1.6), scalar(1), scalar(0.7)"),
    ("gelu.default", '{}, approximate="none"'),
    ("gelu.default", '{}, approximate="tanh"'),
    ("gelu_backward.default", '{}, {}, approximate="none"'),
    ("gelu_backward.default", '{}, {}, approximate="tanh"'),
    ("silu_backward.default", "{}, {}"),
    ("softplus.default", "{}, scalar(2.0), scalar(5.0)"),
    ("softplus_backward.default", "{}, {}, scalar(1), scalar(20)"),
    ("hardtanh_backward.default", "{}, {}, scalar(-1), scalar(1)"),
    ("mish_backward.default", "{}, {}"),
    ("_to_copy.default", "{}, dtype=!, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none"),
    ("clone.default", "{}, memory_format=none"),
    ("elu_backward.default", "{}, scalar(1.6), scalar(1), scalar(0.7), false, {}"),
    ("_to_copy.default", "@, dtype=!, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none"),
    ("mul.Tensor", "@, @"),
]
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
INTEGER_CALLS = [
    ("add.Tensor", "#, #, alpha=scalar(1)"),
    ("add.Tensor", "@, @, alpha=scalar(1)"),
    ("huber_loss_backward.default", "{}, {}, {}, 1, 0.3"),
    ("smooth_l1_loss_backward.default", "{}, {}, {}, 0, 0.3"),
    ("hardtanh.default", "{}, scalar(-0.5), scalar(0.75)"),
    ("add.Tensor", "#, wrapped(1 : i64), alpha=scalar(3)"),
    ("add.Tensor", "#, wrapped(0.3 : f64), alpha=scalar(1)"),
    ("sub.Tensor", "#, #, alpha=scalar(2)"),
    ("rsub.Scalar", "#, scalar(1), scalar(1)"),
    ("rsub.Scalar", "#, scalar(0.3), scalar(1)"),
    ("mul.Tensor", "#, #"),
    ("mul.Tensor", "?, ?"),
    ("mul.Tensor", "#, wrapped(3 : i64)"),
    ("mul.Tensor", "#, wrapped(0.3 : f64)"),
    ("mul.Tensor", "{}, ?"),
    ("div.Tensor", "@, @"),
    ("div.Tensor", "#, wrapped(3 : i64)"),
    ("neg.default", "#"),
    ("abs.default", "#"),
    ("maximum.default", "#, #"),
    ("minimum.default", "@, @"),
    ("clamp.default", "#, scalar(1), scalar(5)"),
    ("clamp_min.default", "#, scalar(0)"),
    *[(f"{name}.Tensor", "@, @") for name in COMPARED],
    *[(f"{name}.Scalar", "#, scalar(3)") for name in COMPARED],
    *[(f"{name}.Scalar", "?, scalar(1)") for name in COMPARED],
    ("gt.Scalar", "#, scalar(0.5)"),
    ("eq.Tensor", "?, ?"),
    ("where.self", "?, @, @"),
    ("where.self", "?, #, #"),
    ("where.self", "?, ?, ?"),
    ("masked_fill.Scalar", "#, ?, scalar(-100)"),
    ("masked_fill.Scalar", "?, ?, scalar(true)"),
    *[(f"logical_{name}.default", "@, @") for name in ("and", "or", "xor")],
    ("logical_not.default", "@"),
    *[(f"bitwise_{name}.Tensor", arguments) for name in ("and", "or", "xor") for arguments in ("#, #", "?, ?", "#, ?")],
    ("bitwise_and.Scalar", "#, scalar(7)"),
    ("bitwise_not.default", "#"),
    ("bitwise_not.default", "?"),
    ("copy.default", "@, @, false"),
    *[("_to_copy.default", "@, dtype=!, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none")] * 4,
    ("full_like.default", "@, scalar(3), dtype=!, layout=none, device=none, pin_memory=none, memory_format=none"),
    ("zeros_like.default", "@, dtype=!, layout=none, device=none, pin_memory=none, memory_format=none"),
    ("arange.default", "scalar($), dtype=!, layout=none, device=none, pin_memory=none"),
    ("arange.start", "scalar(-3), scalar($ - 3), dtype=none, layout=none, device=none, pin_memory=none"),
    ("arange.start_step", "scalar(5), scalar($ * 2 + 5), scalar(2), dtype=!, layout=none, device=none, pin_memory=none"),
]
WORDS = {"none": None, "false": False, "true": True}
VIEWS = ["view", "transpose", "unsqueeze", "detach"]


def value_of(word):
    """A Python value of an argument's text."""
    word = word.split("=", 1)[-1].strip()
    for prefix in ("scalar(", "wrapped("):
        if word.startswith(prefix):
            return eval(word[len(prefix) : -1].split(" : ")[0], WORDS)
    return eval(word, WORDS)


class Case:
    """A random graph as text, the tensors it starts from, and what eager makes of them."""

    kinds = ["n1", "n4", "bits", "special"]  # of random_values

    def __init__(self, rng, dtype, shape, integers):
        self.rng, self.dtype, self.integers = rng, dtype, integers
        self.generator = torch.Generator().manual_seed(rng.getrandbits(30))
        self.inputs, self.nodes, self.program, self.meta = [], [], [], {}
        self.values = 0
        for layout in ["whole", *rng.choices(LAYOUTS, k=rng.randint(1, 3))]:
            self.add_input(self.tensor(shape, layout, dtype))
        self.transposed = False
        self.computed = []
        for _ in range(rng.randint(1, 8)):
            self.step()
        while not self.computed:
            self.step(view=False)
        if rng.random() < 0.15:
            self.parts()

    def parts(self):
        """Values of the shape and type of the last one, side by side."""
        last = self.meta[self.computed[-1]]
        alike = [n for n, t in self.meta.items() if t.shape == last.shape and t.dtype == last.dtype]
        parts = [self.computed[-1], *self.rng.choices(alike, k=self.rng.randint(1, 3))]
        self.rng.shuffle(parts)
        name, rank = self.rng.choice([("cat", last.dim()), ("stack", last.dim() + 1)])
        if rank > 0:
            dimension = str(self.rng.randrange(-rank, rank))
            self.run(f"aten::{name}.default", ["{" + ", ".join(f"%{n}" for n in parts) + "}", dimension])

    def tensor(self, shape, layout, dtype):
        def values(sizes):
            count = 1
            for size in sizes:
                count *= size
            kind = self.rng.choice(self.kinds)
            return random_values(self.generator, count, kind, dtype).reshape(sizes)

        if layout == "row":
            return values(shape[-1:])
        if layout == "column":
            return values((*shape[:-1], 1))
        if layout == "one":
            return values(())
        if layout == "part":
            return values((*shape[:-1], shape[-1] + 3))[..., : shape[-1]]
        if layout == "every second":
            return values((*shape[:-1], 2 * shape[-1]))[..., ::2]
        if layout == "transposed" and len(shape) > 1:
            return values((*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)
        if layout == "expanded":
            return values((*shape[:-1], 1)).expand(shape)
        return values(shape)

    def text_of(self, tensor):
        sizes = ", ".join(map(str, tensor.shape))
        strides = ", ".join(map(str, tensor.stride()))
        return f"{NAME[tensor.dtype]}[{sizes}]{{{strides}}}"

    def add_input(self, tensor):
        number = self.fresh()
        self.inputs.append((number, tensor))
        self.meta[number] = tensor
        return number

    def fresh(self):
        self.values += 1
        return self.values - 1

    def step(self, view=None):
        rng = self.rng
        floats = [n for n, t in self.meta.items() if t.dtype.is_floating_point]
        if view is None and rng.random() < 0.15:
            return self.view(rng.choice(list(self.meta)))
        if view is None and rng.random() < 0.06:
            return self.gather()
        if view is None and rng.random() < 0.04:
            return self.causal_mask()
        name, arguments = rng.choice(INTEGER_CALLS if rng.random() < self.integers else CALLS)
        same = {"{}": floats, "@": list(self.meta)}
        if "{}" in arguments:
            dtype = self.meta[rng.choice(floats[-3:])].dtype
            same["{}"] = [n for n in floats if self.meta[n].dtype == dtype]
        if "#" in arguments:
            integers = [n for n, t in self.meta.items() if t.dtype in INTEGERS.values()]
            dtype = self.meta[integers[-1]].dtype if integers else rng.choice(list(INTEGERS.values()))
            same["#"] = [n for n in integers if self.meta[n].dtype == dtype] or [self.add_integers(dtype)]
        if "?" in arguments:
            same["?"] = [n for n, t in self.meta.items() if t.dtype == torch.bool] or [self.add_mask()]
        operands, words = [], []
        for word in arguments.split(", "):
            if word in same:
                operands.append(same[word][-1] if not operands and rng.random() < 0.8 else rng.choice(same[word]))
                words.append(f"%{operands[-1]}")
            elif word == "dtype=!":
                names = ["f32", "bf16", "f16", "f64"]
                words.append("dtype=" + rng.choice(names + ["i64", "i32", "u8", "bool"] if "@" in arguments else names))
            elif "$" in word:
                words.append(f"scalar({eval(word[7:-1].replace('$', str(self.inputs[0][1].shape[-1])))})")
            else:
                words.append(word)
        self.run("aten::" + name, words)

    def gather(self):
        """Elements of another tensor at random indices; the result has the shape of the first input."""
        shape, rng = tuple(self.inputs[0][1].shape), self.rng
        kind = rng.choice(["index", "index of two", "embedding", "index_select", "gather"])
        dimension = rng.randrange(len(shape))
        entries = rng.randint(1, 40)
        before, after = shape[:dimension], shape[dimension + 1 :]
        layout = rng.choice(["whole", "part", "every second", "transposed"])
        index_type = rng.choice([torch.int64, torch.int64, torch.int32])

        def indices(size, wraps):
            low = -entries if wraps else 0
            return self.add_input(torch.randint(low, entries, size, generator=self.generator).to(index_type))

        source = lambda sizes: self.add_input(self.tensor(sizes, layout, self.dtype))
        if kind == "index":
            words = [source((*before, entries, *after)), indices(shape[dimension : dimension + 1], True)]
            words = [f"%{words[0]}", "{" + ", ".join(["none"] * dimension + [f"%{words[1]}"]) + "}"]
            return self.run("aten::index.Tensor", words)
        if kind == "index of two":
            made = source((*before, entries, entries, *after))
            pair = [indices(shape[dimension : dimension + 1], True), indices((1,), True)]
            rng.shuffle(pair)
            return self.run("aten::index.Tensor", [f"%{made}", "{" + ", ".join(["none"] * dimension + [f"%{i}" for i in pair]) + "}"])
        if kind == "embedding":
            made, index = source((entries, shape[-1])), indices(shape[:-1], False)
            return self.run("aten::embedding.default", [f"%{made}", f"%{index}", "-1", "false", "false"])
        if kind == "index_select":
            made, index = source((*before, entries, *after)), indices(shape[dimension : dimension + 1], False)
            return self.run("aten::index_select.default", [f"%{made}", str(dimension), f"%{index}"])
        index_type = torch.int64
        made, index = source((*before, entries, *after)), indices(shape, False)
        return self.run("aten::gather.default", [f"%{made}", str(dimension), f"%{index}", "false"])

    def causal_mask(self):
        """Column <= row; the two are one value where the last dimensions are equal."""
        shape = self.inputs[0][1].shape
        if len(shape) < 2:
            return
        rest = ["dtype=none", "layout=none", "device=none", "pin_memory=none"]
        rows = columns = self.run("aten::arange.default", [f"scalar({shape[-2]})", *rest])
        if shape[-1] != shape[-2]:
            columns = self.run("aten::arange.default", [f"scalar({shape[-1]})", *rest])
        column = self.run("aten::unsqueeze.default", [f"%{rows}", "1"], rows)
        self.run("aten::le.Tensor", [f"%{columns}", f"%{column}"])

    def add_mask(self):
        return self.add_input(self.tensor(tuple(self.inputs[0][1].shape), "whole", "f32") > 0)

    def add_integers(self, dtype):
        """Small numbers, among which some are equal, or all bit patterns."""
        info = torch.iinfo(dtype)
        low, high = (max(info.min, -4), 7) if self.rng.random() < 0.6 else (info.min, info.max)
        shape = tuple(self.inputs[0][1].shape)
        shape = self.rng.choice([shape, shape, shape[-1:], ()])
        return self.add_input(torch.randint(low, high, shape, generator=self.generator, dtype=torch.int64).to(dtype))

    def run(self, name, words, base=None):
        packet, overload = name[6:].split(".")
        function = getattr(getattr(A, packet), overload)
        values, keywords = [], {}
        for word, argument in zip(words, function._schema.arguments):
            if "=" not in word and argument.kwarg_only:
                word = f"{argument.name}={word}"
            if word.startswith("%"):
                value = ("tensor", int(word[1:]))
            elif word.startswith("{"):
                value = [("tensor", int(w[1:])) if w[0] == "%" else None for w in word[1:-1].split(", ")]
            elif word.startswith("dtype="):
                value = TYPES.get(word[6:])
            else:
                value = value_of(word)
            (keywords.__setitem__(argument.name, value) if argument.kwarg_only else values.append(value))

        def given(value, table):
            if isinstance(value, list):
                return [given(v, table) for v in value]
            return table[value[1]] if isinstance(value, tuple) else value

        run = lambda table, wide=False: function(
            *[in_float64(given(v, table), wide) for v in values],
            **{k: in_float64(given(v, table), wide) for k, v in keywords.items()},
        )
        try:
            made = run(self.meta)
        except RuntimeError:
            return
        if made.dtype not in NAME or made.numel() == 0:
            return
        number = self.fresh()
        self.meta[number] = made
        self.program.append((number, run, base is None))
        alias = "" if base is None else f" &{base}"
        self.nodes.append(f"  %{number}: {self.text_of(made)}{alias} = {name}({', '.join(words)})")
        if base is None:
            self.computed.append(number)
        return number

    def root(self, number):
        line = next((n for n in self.nodes if n.startswith(f"  %{number}:") and " &" in n.split(" = ")[0]), None)
        return number if line is None else int(line.split(" = ")[0].split(" &")[1])

    def view(self, number):
        tensor, rng = self.meta[number], self.rng
        kind = rng.choice(VIEWS)
        base = self.root(number)
        if kind == "view":
            return self.run("aten::view.default", [f"%{number}", f"[{tensor.numel()}]"], base) if tensor.is_contiguous() else None
        if kind == "transpose" and tensor.dim() > 1:
            return self.run("aten::transpose.int", [f"%{number}", "0", "1"], base)
        if kind == "unsqueeze":
            return self.run("aten::unsqueeze.default", [f"%{number}", "0"], base)
        return self.run("aten::detach.default", [f"%{number}"], base)

    def text(self):
        lines = ['antegrad.graph 1 "case"', "inputs"]
        lines += [f"  %{n}: {self.text_of(t)} primal argument {i}" for i, (n, t) in enumerate(self.inputs)]
        # What the last value is computed from, as in a group.
        made = [({int(n) for n in re.findall(r"%(\d+):", line.split(" = ")[0])}, line) for line in self.nodes]
        needed, results = {self.computed[-1]}, [self.computed[-1]]
        kept = []
        for numbers, line in reversed(made):
            if numbers & needed:
                kept.insert(0, line)
                needed |= {int(w) for w in re.findall(r"%(\d+)", line.split(" = ", 1)[1])}
                if numbers & set(self.computed[:-1]) and self.rng.random() < 0.2:
                    results.append(min(numbers))
        self.nodes = kept
        self.results = results
        lines += ["nodes", *self.nodes, "outputs", *[f"  %{n} result" for n in self.results]]
        return "\n".join(lines) + "\n----\n"

    def eager(self, wide=False):
        """The values of all nodes; `wide`: in float64."""
        table = {number: widened(tensor) if wide else tensor for number, tensor in self.inputs}
        for number, run, several in self.program:
            made = run(table, wide) if run else made
            table[number] = made[0 if run else 1] if isinstance(made, tuple) else made
        return table


def in_float64(argument, wide):
    """An argument of a node that runs in float64: its floating-point types are that one."""
    floating = isinstance(argument, torch.dtype) and argument.is_floating_point
    return torch.float64 if wide and floating else argument


def widened(tensor):
    if not tensor.is_floating_point():
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=torch.float64).copy_(tensor) if 0 not in tensor.stride() else tensor.double()


def compared(options, case, number, tensor, expected, wide):
    """Why the kernel's result is wrong, or "". `wide` are the values in float64 that are known."""
    if options.level == "close":
        if "values" not in wide:
            wide["values"] = case.eager(wide=True)
        exact = wide["values"][number]
        wider = case.dtype != "f64" and exact.dtype == torch.float64
        return close_errors(tensor, expected, exact, signs=type(case) is Case, wider=wider)[2]
    bad = tensor != expected if tensor.dtype == torch.bool else differences(expected, tensor)[0]
    if not bad.any():
        return ""
    at = tuple(bad.nonzero()[0].tolist())
    return f"{int(bad.sum())} of {bad.numel()} elements differ, at {list(at)}: {expected[at].item()!r}, kernel {tensor[at].item()!r}"


LAYOUTS = ["whole", "whole", "whole", "row", "column", "one", "part", "every second", "transposed", "expanded"]


def part_size(split, elements, threads):
    grain = 32768
    if split == 1 and elements > 16384:
        grain = max(1, elements // threads)
    if threads <= 1 or elements < grain:
        return elements
    parts = min(threads, -(-elements // grain))
    return -(-elements // parts)


def run_kernel(library, line, case, threads, expected):
    words = line.split()
    numbers = [int(w) for w in words[5].split(",")]
    buffers = [w for w in words[7].split(",")]
    tensors, written = [], {}
    for buffer in buffers:
        number = int(buffer.rstrip("+"))
        if buffer.endswith("+"):
            like = expected[number]
            if number not in written:  # one that is stored in parts has several buffers
                written[number] = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
            tensors.append(written[number])
        else:
            tensors.append(dict(case.inputs)[number])
    addresses = (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])
    arguments = (ctypes.c_long * len(numbers))(*numbers)
    elements = int(words[9])
    size = part_size(int(words[3]), elements, threads)
    kernel = getattr(library, words[1])
    for low in range(0, elements, max(1, size)):
        kernel(addresses, arguments, ctypes.c_long(low), ctypes.c_long(min(elements, low + size)), ctypes.c_long(0))
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the program group_kernels")
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtypes", default="f32,bf16,f16,f64")
    parser.add_argument("--integers", type=float, default=0.3, help="the share of nodes on integers and bools")
    parser.add_argument("--level", choices=["exact", "close"], default="exact")
    options = parsed(parser)
    capability = options.capability
    rng = random.Random(options.seed)
    cases = [Case(rng, rng.choice(options.dtypes.split(",")), rng.choice(SHAPES), options.integers) for _ in range(options.graphs)]
    texts = [case.text() for case in cases]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="check_groups_"))
    source = folder / "kernels.c"
    (folder / "graphs.txt").write_text("".join(texts))
    answer = subprocess.run(
        [options.tool, capability, str(onednn_level()), source, "1", options.level], input="".join(texts), text=True, capture_output=True
    )
    if answer.returncode:
        raise SystemExit(f"{answer.stderr}\nin {folder}")
    lines = answer.stdout.splitlines()
    library = load(source, capability, FLAGS)
    reasons, elements, wrong, kernels = Counter(), 0, 0, 0
    for case, text, line in zip(cases, texts, lines):
        if line.startswith("no "):
            reasons[line[3:]] += 1
            continue
        kernels += 1
        wide = {}
        for threads in (1, 2, 4) if case.inputs[0][1].numel() > 16384 else (1,):
            torch.set_num_threads(threads)
            expected = case.eager()
            found = run_kernel(library, line, case, threads, expected)
            for number, tensor in found.items():
                elements += tensor.numel()
                if reason := compared(options, case, number, tensor, expected[number], wide):
                    wrong += 1
                    print(f"%{number}, {threads} threads: {reason}\n{text}{line}")
    print(f"{header(capability)}; --graphs {options.graphs} --seed {options.seed}")
    print(f"{capability}: {kernels} of {len(cases)} graphs have a kernel; {elements} elements compared, {wrong} results differ")
    for reason, count in reasons.most_common():
        print(f"  {count:4d} {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
