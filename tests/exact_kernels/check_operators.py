"""Measures each operator of pointwise.txt and rows.txt alone: the errors of its kernel of the level `close` and those of
eager, both against a wider type. Fails where the kernel is less accurate than eager by the rule of closeness.py."""

import argparse
import dataclasses
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cases import CASES, INTEGER_NUMBERS, NEVER_CONSTANT, NO_CLOSE_KERNEL, numbers_of
from check import TORCH_DTYPE, random_values
from check_groups import FLAGS, TYPES, Case, widened
from check_row_groups import run_kernel
from closeness import close_errors
from extended import evaluated
from program import header, load, onednn_level, parsed
from recipes import DTYPES, INTEGERS, read
from row_cases import IMAGES, ROW_CASES, ROWS

# For large negative numbers float64 cancels, too: the formula of the level `close` does not.
CANCELS = ("gelu_tanh", "gelu_tanh_backward")
POSITIVE = ("pow", "pow_number", "log", "log2", "log10")

NORMAL = ("n1", "n4", "n30")  # numbers of common sizes: only these, in contiguous operands, are in the results
# Elements of a row share the error of its sum: fewer rows tell of chance.
LEAST_ROWS = 256
LEAST_SAMPLES = 32
MATRIX = (50, 33)
LARGE = 40001  # threads share these


class Recorder(TorchDispatchMode):
    """The calls of ATen in a graph's text."""

    def __init__(self, operands):
        super().__init__()
        self.tensors = list(operands)
        self.nodes = []
        self.last = []

    def number(self, tensor):
        return next(i for i, known in enumerate(self.tensors) if known is tensor)

    def word(self, value, kind):
        if isinstance(value, torch.Tensor):
            return f"%{self.number(value)}"
        if value is None:
            return "none"
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, torch.dtype):
            return next(name for name, known in TYPES.items() if known == value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.word(v, '') for v in value)}]"
        number = str(value).lower() if isinstance(value, bool) else repr(float(value) if kind == "float" else value)
        if "Tensor" in kind:
            type_of = {bool: "bool", int: "i64", float: "f64"}[type(value)]
            return f"wrapped({number} : {type_of})"
        return f"scalar({number})" if "number" in kind else number

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        made = function(*args, **kwargs)
        words = []
        for position, argument in enumerate(function._schema.arguments):
            given = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
            name = f"{argument.name}=" if argument.kwarg_only else ""
            words.append(name + self.word(given, str(argument.type)))
        self.last, defined = [], []
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            if tensor is None:
                defined.append("none")
                continue
            self.last.append(len(self.tensors))
            self.tensors.append(tensor)
            defined.append(f"%{self.last[-1]}: {Case.text_of(self, tensor)}")
        packet, overload = function._schema.name, function._schema.overload_name or "default"
        self.nodes.append(f"  {', '.join(defined)} = {packet}.{overload}({', '.join(words)})")
        return made


@dataclasses.dataclass
class Graph:
    """One call, as a graph and as a kernel. Kernels read the operands in `inputs`."""

    text: str
    results: list  # numbers of values
    inputs: list = ()
    rng: random.Random = dataclasses.field(default_factory=lambda: random.Random(1))


def graph_of(operands, call):
    with Recorder(operands) as recorder:
        call(*operands)
    lines = ['antegrad.graph 1 "case"', "inputs"]
    lines += [f"  %{i}: {Case.text_of(None, t)} primal argument {i}" for i, t in enumerate(operands)]
    lines += ["nodes", *recorder.nodes, "outputs", *[f"  %{n} result" for n in recorder.last]]
    return Graph("\n".join(lines) + "\n----\n", recorder.last)


def graphs_of(subject):
    """Pairs of a structure and its graph, without those that ATen refuses."""
    made = []
    for structure in subject.structures:
        operands, call, _ = subject.made(structure, subject.kinds(structure)[0])
        try:
            made.append((structure, graph_of(operands, call)))
        except RuntimeError:
            print(f"{subject.operator.name} {subject.dtype}: ATen refuses {structure}", flush=True)
    return made


def laid_out(values, shape, layout):
    *outer, columns = shape
    if layout == "row":
        return values(columns)
    if layout == "column":
        return values(*outer, 1)
    if layout == "one":
        return values()
    if layout == "part":
        return values(*outer, columns + 3)[..., :columns]
    if layout == "every second":
        return values(*outer, 2 * columns)[..., ::2]
    if layout == "transposed":
        return values(columns, *outer).t()
    return values(*shape)


class Values:
    """Makes tensors of a kind of numbers."""

    def __init__(self, dtype, kind, seed):
        self.dtype, self.kind = dtype, kind
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *sizes):
        return self.of(self.dtype, sizes)

    def of(self, dtype, sizes, positive=False):
        count = math.prod(sizes)
        if dtype == "bool":
            return (torch.rand(count, generator=self.generator) < 0.5).reshape(sizes)
        if dtype in INTEGERS:
            info = torch.iinfo(TYPES[dtype])
            low, high = (info.min, info.max) if self.kind == "bits" else (max(info.min, -4), 7)
            made = torch.randint(low, high, (count,), generator=self.generator, dtype=torch.int64)
            return made.to(TYPES[dtype]).reshape(sizes)
        if self.kind != "some special":
            made = random_values(self.generator, count, self.kind, dtype)
        else:
            made = random_values(self.generator, count, "n4", dtype)
            made[1 :: 3 * sizes[-1] + 1] = random_values(self.generator, len(made[1 :: 3 * sizes[-1] + 1]), "special", dtype)
        made = made.abs() if positive and self.kind != "bits" else made
        return made.reshape(sizes)


class Pointwise:
    """The cases of one operator of pointwise.txt and one element type."""

    signs = True

    def __init__(self, operator, dtype):
        self.operator, self.dtype = operator, dtype
        self.call, sets = CASES[operator.name]
        if dtype in INTEGERS:
            sets = INTEGER_NUMBERS.get(operator.name, sets)
        count = len(operator.inputs)
        self.structures = [((size,), ["whole"] * count, numbers) for size in (1, 7, 1000, LARGE) for numbers in sets]
        layouts = [[layout] * count for layout in ("part", "every second", "transposed")]
        for position, (name, _) in enumerate(operator.inputs):
            for layout in ("row", "column", "one", "transposed"):
                broadcast = layout != "transposed"
                if count == 1 or broadcast and name in NEVER_CONSTANT.get(operator.name, ()):
                    continue
                layouts.append(["whole"] * position + [layout] + ["whole"] * (count - position - 1))
        self.contiguous = [s for s in self.structures if s[0] in ((1000,), (LARGE,))]
        self.structures += [(MATRIX, each, sets[-1]) for each in layouts]

    def kinds(self, structure):
        if self.dtype in INTEGERS:
            return ("small", "bits")
        if structure[0] == (LARGE,):
            return ("n4",)
        return (*NORMAL, "special", "bits")

    def samples(self, structure):
        """Elements that differ: others compute the same from operands that are broadcast."""
        shape, layouts, _ = structure
        distinct = {"row": shape[-1], "column": shape[0], "one": 1}
        return min(distinct.get(layout, math.prod(shape)) for layout in layouts)

    def repeats(self, structure):
        return -(-LEAST_SAMPLES // self.samples(structure))

    def made(self, structure, kind, seed=1):
        """Operands, the call, and the numbers of the recipe."""
        shape, layouts, numbers = structure
        values, operands = Values(self.dtype, kind, seed), []
        for position, ((_, element), layout) in enumerate(zip(self.operator.inputs, layouts)):
            positive = self.operator.name in POSITIVE and position == 0
            operands.append(laid_out(lambda *s: values.of(element or self.dtype, s, positive), shape, layout))
        return operands, lambda *tensors: self.call(*tensors, *numbers), numbers_of(self.operator.name, numbers, math.prod(shape))

    def converts(self):
        return self.operator.result in DTYPES


class OfRows:
    """The cases of one operator of rows.txt and one element type."""

    signs = False  # a sum of several elements that is 0 has any

    def __init__(self, operator, dtype):
        self.operator, self.dtype = operator, dtype
        self.columns = "columns" in operator.name
        self.structures = IMAGES if operator.over == "channels" else [s for s in ROWS if s[0] > 1 or not self.columns]
        self.contiguous = [s for s in self.structures if s[0] > 32 or s in IMAGES]

    def kinds(self, structure):
        return ("n1", "n4", "some special")

    def samples(self, structure):
        return None

    def repeats(self, structure):
        return -(-LEAST_ROWS // structure[1 if self.columns or len(structure) > 2 else 0])

    def made(self, structure, kind, seed=1):
        operands, call = ROW_CASES[self.operator.name](Values(self.dtype, kind, seed), *structure)
        numbers = {"eps": 1e-5, "momentum": 0.1, "count": structure[0 if self.columns else -1]}
        return operands, call, [numbers[name] for name in self.operator.numbers]

    def converts(self):
        return False


def several(made):
    return [t for t in made if t is not None] if isinstance(made, (tuple, list)) else [made]


def references(subject, operands, call, numbers, capability):
    """Each result in a wider type, as float64 and what that is off, or None; and whether it is wider."""
    if subject.converts():
        return [(widened(operands[0]), None)], True
    wide = [(t, None) for t in several(call(*[widened(t) for t in operands]))]
    if subject.dtype != "f64" and subject.operator.name not in CANCELS:
        return wide, True
    row = subject.operator.close_row(subject.dtype, capability)
    if "column" in row.body or not wide[0][0].is_floating_point():
        return wide, False
    exact = evaluated(subject.operator, row, operands, numbers)
    return [tuple(p.reshape(t.shape) for p in pair) for (t, _), pair in zip(wide, exact)], True


@dataclasses.dataclass
class Sums:
    """Errors of several cases."""

    logs: list = dataclasses.field(default_factory=lambda: [0.0, 0.0])
    elements: int = 0
    most: list = dataclasses.field(default_factory=lambda: [0.0, 0.0])
    floating: bool = False
    worse: list = dataclasses.field(default_factory=list)

    def add(self, errors, elements, normal):
        self.floating = True
        for i, error in enumerate(errors):
            if normal:
                self.logs[i] += error.mean * elements
                self.most[i] = max(self.most[i], error.units)
        self.elements += elements if normal else 0

    def line(self):
        if not self.floating:
            return "equal"
        means = [log / max(1, self.elements) for log in self.logs]
        return f"mean {means[0]:.3f} {means[1]:.3f} largest {self.most[0]:.3g} {self.most[1]:.3g}"


def measure(subject, structure, graph, line, library, capability, sums):
    large = math.prod(structure[0] if isinstance(structure[0], tuple) else structure) > 32768
    for kind in subject.kinds(structure):
        for threads in (1, 2) if large else (1,):
            torch.set_num_threads(threads)
            results = [[] for _ in graph.results]
            for seed in range(subject.repeats(structure)):
                operands, call, numbers = subject.made(structure, kind, seed)
                graph.inputs = list(enumerate(operands))
                exact, wider = references(subject, operands, call, numbers, capability)
                expected = dict(zip(graph.results, several(call(*operands))))
                found = run_kernel(library, line, graph, threads, expected)
                for result, number, (high, low) in zip(results, graph.results, exact):
                    low = torch.zeros(high.shape, dtype=torch.float64) if low is None else low
                    result.append([t.flatten() for t in (found[number], expected[number], high, low)])
            for result in results:
                kernel, eager, high, low = [torch.cat(parts) for parts in zip(*result)]
                samples = subject.samples(structure)
                samples = samples and samples * subject.repeats(structure)
                ours, theirs, reason = close_errors(kernel, eager, high, subject.signs, wider, low, samples)
                if reason:
                    sums.worse.append(f"{structure}, {kind}, {threads} threads: {reason}")
                if ours:
                    sums.add((theirs, ours), kernel.numel(), kind in NORMAL and structure in subject.contiguous)


def subjects(capability, names):
    for file, kind in (("pointwise.txt", Pointwise), ("rows.txt", OfRows)):
        for name, operator in read(file).items():
            if names and name not in names:
                continue
            for dtype in (*DTYPES, *INTEGERS):
                if operator.close_row(dtype, capability):
                    yield kind(operator, dtype)


def kernels_of(options, graphs):
    """A line of the tool for each graph, and the library of all kernels."""
    source = pathlib.Path(tempfile.mkdtemp(prefix="check_operators_")) / "kernels.c"
    command = [options.tool, options.capability, str(onednn_level()), source, "1", "close"]
    text = "".join(graph.text for graph in graphs)
    source.with_name("graphs.txt").write_text(text)
    answer = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    if answer.returncode:
        raise SystemExit(f"{answer.stderr}\nin {source.parent}")
    return answer.stdout.splitlines(), load(source, options.capability, [*FLAGS, "-O1"])  # thousands of them


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the program group_kernels")
    parser.add_argument("operators", nargs="*", help="all when none is named")
    parser.add_argument("--quick", action="store_true", help="only what is in the results: contiguous operands of a few sizes")
    parser.add_argument("--results", type=pathlib.Path, help="a folder, for a file by capability")
    options = parsed(parser)
    every = list(subjects(options.capability, options.operators))
    kept = [subject for subject in every if subject.operator.name not in NO_CLOSE_KERNEL]
    for subject in kept:
        subject.structures = subject.contiguous if options.quick else subject.structures
    graphs = [graphs_of(subject) for subject in kept]
    lines, library = kernels_of(options, [graph for of_subject in graphs for _, graph in of_subject])
    lines = iter(lines)
    text, failed = [header(options.capability)], 0
    for subject, of_subject in zip(kept, graphs):
        sums = Sums()
        for (structure, graph), line in zip(of_subject, lines):
            if line.startswith("no "):
                sums.worse.append(f"{structure}: {line}")
            else:
                measure(subject, structure, graph, line, library, options.capability, sums)
        text.append(f"{subject.operator.name:26s} {subject.dtype:5s} {sums.line()}")
        print("\n  ".join([text[-1], *sums.worse[:5]]), flush=True)
        failed += bool(sums.worse)
    print(f"{options.capability}: {len(kept)} operators and element types, {failed} less accurate or without a kernel")
    if options.results:
        options.results.mkdir(parents=True, exist_ok=True)
        (options.results / f"operators.{options.capability}.txt").write_text("\n".join(text) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
