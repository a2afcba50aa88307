"""Compares every recipe of pointwise.txt with ATen, bit by bit. README.md says how to run it."""

import argparse
import ctypes
import math
import sys

import torch

from cases import CASES, COMPARED_IN_GROUPS, CONTIGUOUS_RESULT, NEVER_CONSTANT, numbers_of
from program import compile_c, header, parsed
from recipes import DTYPES, functions, kernel_name, read

TORCH_DTYPE = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
SMALL = (0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000)
LARGE = (16385, 32768, 32769, 100003)  # threads may share these
LAYOUTS = ((50, 33), (1500, 77))
GRAIN = 32768
def split(numel, threads, grain=GRAIN):
    """The chunks of TensorIterator::for_each and at::parallel_for."""
    chunks = 1 if threads == 1 or numel < grain else min(threads, -(-numel // grain))
    size = max(1, -(-numel // chunks))
    return [(low, min(numel, low + size)) for low in range(0, numel, size)]


def pieces(numel, row, threads, grain):
    """The parts of rows that each chunk hands to the inner loop."""
    for low, high in split(numel, threads, grain):
        while low < high:
            end = min(high, (low // row + 1) * row)
            yield low, end
            low = end


def grain_of(operator, numel):
    if operator.split == "gelu" and numel > 16384:
        return max(1, numel // torch.get_num_threads())
    return GRAIN


def run(library, operator, dtype, inputs, numbers, row=None, vectors=True, constant=""):
    """The recipe over inputs that are flat and contiguous, cut into rows of `row` elements."""
    numel = inputs[0].numel()
    result = {None: TORCH_DTYPE[dtype], "bool": torch.bool, **TORCH_DTYPE}[operator.result]
    out = torch.empty(numel, dtype=result)
    kernel = getattr(library, kernel_name(operator, dtype, constant))
    buffers = (ctypes.c_void_p * (1 + len(inputs)))(out.data_ptr(), *[t.data_ptr() for t in inputs])
    numbers = numbers_of(operator.name, numbers, numel)
    values = (ctypes.c_double * max(1, len(numbers)))(*numbers)
    for low, high in pieces(numel, row or max(1, numel), torch.get_num_threads(), grain_of(operator, numel)):
        kernel(buffers, values, ctypes.c_long(low), ctypes.c_long(high), ctypes.c_long(vectors))
    return out


def differences(expected, found):
    """Elements whose bits differ (any NaN equals any NaN), and NaNs whose bits differ."""
    if expected.dtype != found.dtype or expected.shape != found.shape:
        raise ValueError(f"ATen: {expected.dtype} {expected.shape}, recipe: {found.dtype} {found.shape}")
    kind = BITS[expected.element_size()]
    other = expected.contiguous().view(kind) != found.contiguous().view(kind)
    nan = expected.isnan() & found.isnan()
    return other & ~nan, int((other & nan).sum())


def random_values(generator, numel, kind, dtype):
    """All bit patterns alike (NaN, infinity, denormals), or normally distributed numbers."""
    torch_dtype = TORCH_DTYPE[dtype]
    if kind == "bits":
        bits = BITS[torch_dtype.itemsize]
        info = torch.iinfo(bits)
        raw = torch.randint(info.min, info.max, (numel,), generator=generator, dtype=torch.int64)
        return raw.to(bits).view(torch_dtype)
    if kind == "special":  # where operations choose between zeros, or meet NaN and infinities
        some = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-42, -3.0, 6.0])
        return some[torch.randint(len(some), (numel,), generator=generator)].to(torch_dtype)
    scale = {"n1": 1.0, "n4": 4.0, "n30": 30.0}[kind]
    return (torch.randn(numel, generator=generator, dtype=torch.float64) * scale).to(torch_dtype)


class Tally:
    def __init__(self, operator, dtype):
        self.name = f"{operator.name} {dtype}"
        self.compared = self.wrong = self.nan = 0
        self.first = ""

    def add(self, what, expected, found, inputs):
        bad, nan = differences(expected, found)
        self.compared += expected.numel()
        self.nan += nan
        count = int(bad.sum())
        if count and not self.first:
            at = int(bad.flatten().nonzero()[0])
            values = [t.flatten()[at].item() for t in inputs]
            self.first = (
                f"{what}, element {at}: of {values} ATen makes {expected.flatten()[at].item()!r}, "
                f"the recipe {found.flatten()[at].item()!r}"
            )
        self.wrong += count

    def line(self):
        verdict = "exact" if not self.wrong else f"{self.wrong} of {self.compared} differ; {self.first}"
        nan = f" ({self.nan} NaNs with other bits)" if self.nan else ""
        return f"{self.name:26s} {verdict}{nan}"


def check(library, operator, dtype, capability, threads):
    """One operator and element type, in all sizes, kinds of values, layouts and thread counts.

    Small ones run with the first thread count alone: they are never split.
    """
    call, number_sets = CASES[operator.name]
    generator = torch.Generator().manual_seed(1)
    tally = Tally(operator, dtype)
    torch._C._set_mkldnn_enabled("native" not in operator.name)
    contiguous = "contiguous" in operator.when

    def compare(what, inputs, row, vectors, transposed, constant=""):
        for numbers in number_sets[-1:]:
            expected = call(*inputs, *numbers)
            if not constant and vectors:
                constant = next((n for n in operator.numbers if operator.row(dtype, capability, n)), "")
            order = [t.t() if transposed else t.expand(expected.shape) for t in inputs]
            flat = [t.contiguous().flatten() for t in order]
            found = run(library, operator, dtype, flat, numbers, row, vectors, constant)
            expected = expected.t() if transposed else expected
            tally.add(f"{what}, numbers {numbers}", expected.contiguous().flatten(), found, flat)

    def values(shape, kind, position):
        name, element = operator.inputs[position]
        numel = math.prod(shape)
        if element == "bool":
            return (torch.rand(numel, generator=generator) < 0.5).reshape(shape)
        made = random_values(generator, numel, kind, dtype).reshape(shape)
        positive = operator.name in ("pow", "pow_number", "log", "log2", "log10") and position == 0
        return made.abs() if positive and kind != "bits" else made

    for count in threads:
        torch.set_num_threads(count)
        for numel in (*SMALL, *LARGE) if count == threads[0] else LARGE:
            if contiguous and numel <= 1:
                continue
            for kind in ("bits", "n4") if numel in LARGE else ("bits", "n1", "n4", "n30", "special"):
                for numbers in number_sets:
                    inputs = [values((numel,), kind, i) for i in range(len(operator.inputs))]
                    constant = next((n for n in operator.numbers if operator.row(dtype, capability, n)), "")
                    strided = numel == 1  # its strides are 0
                    constant = "" if strided else constant
                    found = run(library, operator, dtype, inputs, numbers, None, not strided, constant)
                    what = f"{numel} elements, {kind}, {count} threads, numbers {numbers}"
                    tally.add(what, call(*inputs, *numbers), found, inputs)
        if contiguous:
            continue
        for rows, columns in LAYOUTS if count == threads[0] else LAYOUTS[1:]:
            for layout in ("rows", "every second", "transposed", "row operand"):
                wide = [values((rows, 2 * columns + 1), "n4", i) for i in range(len(operator.inputs))]
                row, vectors = columns, True
                if layout == "transposed" and operator.name in CONTIGUOUS_RESULT:
                    continue
                if layout == "rows":
                    inputs = [t[:, :columns] for t in wide]
                elif layout == "every second":
                    inputs, vectors = [t[:, : 2 * columns : 2] for t in wide], False
                elif layout == "transposed":
                    inputs, row = [t[:, :columns].contiguous().t() for t in wide], rows * columns
                elif len(wide) == 1:
                    continue
                else:
                    inputs = [t[:, :columns].contiguous() for t in wide]
                    inputs[-1] = inputs[-1][0]
                what = f"{rows}x{columns} {layout}, {count} threads"
                compare(what, inputs, row, vectors, layout == "transposed")
            for position, (name, _) in enumerate(operator.inputs):
                if len(operator.inputs) == 1 or name in NEVER_CONSTANT.get(operator.name, ()):
                    continue
                full = [values((rows, columns), "n4", i) for i in range(len(operator.inputs))]
                inputs = [t[:, :1] if i == position else t for i, t in enumerate(full)]
                constant = name if operator.row(dtype, capability, name) else ""
                compare(f"{rows}x{columns}, {name} a column, {count} threads", inputs, columns, True, False, constant)
                inputs = [t[0, 0] if i == position else t for i, t in enumerate(full)]
                what = f"{rows}x{columns}, {name} one element, {count} threads"
                compare(what, inputs, rows * columns, True, False, constant)
    torch._C._set_mkldnn_enabled(True)
    return tally


def check_patterns(library, operator, step):
    """A unary float32 operator over every step-th of the 2^32 bit patterns, on one thread."""
    torch.set_num_threads(1)
    call, number_sets = CASES[operator.name]
    tally = Tally(operator, "f32")
    torch._C._set_mkldnn_enabled("native" not in operator.name)
    part = 1 << 22
    for low in range(-(2**31), 2**31, part * step):
        patterns = torch.arange(low, min(low + part * step, 2**31), step, dtype=torch.int64)
        x = patterns.to(torch.int32).view(torch.float32)
        found = run(library, operator, "f32", [x], number_sets[0])
        tally.add(f"patterns from {low}", call(x, *number_sets[0]), found, [x])
    torch._C._set_mkldnn_enabled(True)
    return tally


def combinations(operators, capability, names, dtypes):
    for name, operator in operators.items():
        for dtype in DTYPES:
            wanted = (not names or name in names) and dtype in dtypes
            if wanted and name not in COMPARED_IN_GROUPS and operator.row(dtype, capability):
                yield operator, dtype


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", help="all when none is named")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--threads", default="1,2,4")
    parser.add_argument("--all-floats", action="store_true", help="unary float32 over all 2^32 patterns")
    parser.add_argument("--every", type=int, default=1, help="with --all-floats: every n-th pattern only")
    options = parsed(parser)
    capability = options.capability
    operators = read("pointwise.txt")
    chosen = list(combinations(operators, capability, options.operators, options.dtypes.split(",")))
    library = compile_c("".join(functions(o, d, capability) for o, d in chosen), capability)
    print(header(capability), flush=True)
    wrong = 0
    for operator, dtype in chosen:
        if options.all_floats:
            if dtype != "f32" or len(operator.inputs) != 1:
                continue
            tally = check_patterns(library, operator, options.every)
        else:
            try:
                tally = check(library, operator, dtype, capability, [int(t) for t in options.threads.split(",")])
            except (NotImplementedError, RuntimeError) as error:
                print(f"{operator.name + ' ' + dtype:26s} ATen refuses: {str(error).splitlines()[0]}")
                continue
        wrong += tally.wrong > 0
        print(tally.line(), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
