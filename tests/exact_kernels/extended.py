"""Evaluates recipes in numbers of 64 bits, which tells how accurate float64 is: no wider type of ATen does."""

import ast
import ctypes
import functools
import pathlib
import tempfile

import numpy
import torch

from program import load

LONG = numpy.longdouble
ERRORS = """
long double erfl(long double), erfcl(long double);
void erf_all(long double *x, long n) { for (long i = 0; i < n; i++) x[i] = erfl(x[i]); }
void erfc_all(long double *x, long n) { for (long i = 0; i < n; i++) x[i] = erfcl(x[i]); }
"""


@functools.cache
def error_functions():
    source = pathlib.Path(tempfile.mkdtemp(prefix="exact_kernels_")) / "extended.c"
    source.write_text(ERRORS)
    return load(source, "default", ["-fno-builtin", "-lm"])


def error_function(name):
    def function(x):
        result = numpy.array(x, dtype=LONG, copy=True, order="C")
        getattr(error_functions(), f"{name}_all")(ctypes.c_void_p(result.ctypes.data), ctypes.c_long(result.size))
        return result

    return function


FUNCTIONS = {
    **{name: getattr(numpy, name) for name in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh".split()},
    **{name: getattr(numpy, name) for name in "sqrt floor ceil trunc abs minimum maximum".split()},
    **{name: error_function(name) for name in ("erf", "erfc")},
    **{"asin": numpy.arcsin, "acos": numpy.arccos, "atan": numpy.arctan, "atan2": numpy.arctan2, "pow": numpy.power},
    **{"round_even": numpy.rint, "select": numpy.where, "both": numpy.logical_and, "either": numpy.logical_or},
    **{"differ": numpy.logical_xor, "opposite": numpy.logical_not},
    **{name: lambda a: a for name in ("rnd", "wide", "narrow", "exact")},
    **{name: lambda a, b, c: a * b + c for name in ("fma", "muladd")},
    "min_x86": lambda a, b: numpy.where(a < b, a, b),
    "max_x86": lambda a, b: numpy.where(a > b, a, b),
}
ROWS, COLUMNS = {"axis": -1, "keepdims": True}, {"axis": 0, "keepdims": True}
# What reduces, and where the accumulator starts.
FOLDS = {
    **{name: (lambda x: numpy.sum(x, **ROWS), 0) for name in ("add_lanes", "cascade", "cascade_f32")},
    **{name: (lambda x: numpy.sum(x, **COLUMNS), 0) for name in ("cascade_columns", "cascade_columns_f32")},
    **{name: (lambda x: numpy.max(x, **ROWS), -numpy.inf) for name in ("max_lanes", "max_blocks")},
    **{name: (lambda x: numpy.min(x, **ROWS), numpy.inf) for name in ("min_lanes", "min_blocks")},
}
OVER_COLUMNS = {
    "max_lanes": (lambda x: numpy.max(x, **COLUMNS), -numpy.inf),
    "min_lanes": (lambda x: numpy.min(x, **COLUMNS), numpy.inf),
}
BINARY = {ast.Add: numpy.add, ast.Sub: numpy.subtract, ast.Mult: numpy.multiply, ast.Div: numpy.divide}
COMPARE = {
    ast.Lt: numpy.less, ast.LtE: numpy.less_equal, ast.Gt: numpy.greater, ast.GtE: numpy.greater_equal,
    ast.Eq: numpy.equal, ast.NotEq: numpy.not_equal,
}  # fmt: skip


class Evaluation:
    def __init__(self, values, folds):
        self.values = {"inf": LONG(numpy.inf), **values}
        self.folds = folds

    def formula(self, text):
        *assigned, last = [part.strip() for part in text.split(";")]
        for part in assigned:
            name, value = part.split("=", 1)
            self.values[name.strip()] = self.expression(value.strip())
        return self.expression(last)

    def expression(self, text):
        self.text = text
        return self.value(ast.parse(text, mode="eval").body)

    def value(self, node):
        if isinstance(node, ast.Constant):
            return LONG(ast.get_source_segment(self.text, node))
        if isinstance(node, ast.Name):
            return self.values[node.id]
        if isinstance(node, ast.UnaryOp):
            return -self.value(node.operand)
        if isinstance(node, ast.BinOp):
            return BINARY[type(node.op)](self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Compare):
            return COMPARE[type(node.ops[0])](self.value(node.left), self.value(node.comparators[0]))
        name = node.func.id
        if name in self.folds:
            reduce, self.values["acc"] = self.folds[name]
            return reduce(self.value(node.args[0]))
        name = name.split("_", 1)[1] if name.startswith(("vec_", "libm_", "vml_")) else name
        return FUNCTIONS[name](*[self.value(argument) for argument in node.args])


def long_of(tensor):
    tensor = tensor.detach().contiguous()
    return tensor.double().numpy().astype(LONG) if tensor.is_floating_point() else tensor.numpy()


def evaluated(operator, row, operands, numbers):
    """All results of a row of recipes, each as float64 and what that is off."""
    values = {name: long_of(tensor) for (name, _), tensor in zip(operator.inputs, operands)}
    values |= {name: LONG(number) for name, number in zip(operator.numbers, numbers)}
    folds = FOLDS | (OVER_COLUMNS if operator.over == "columns" else {})
    made = []
    with numpy.errstate(all="ignore"):
        for formula in [row.body, *row.of_rows] if row.body else row.of_rows:
            made.append(Evaluation(values, folds).formula(formula))
        for formula in row.sums:
            made.append(numpy.sum(Evaluation(values | {"acc": LONG(0)}, folds).formula(formula), axis=0))
        return [parts(numpy.asarray(exact)) for exact in made]


def parts(exact):
    high = exact.astype(numpy.float64)
    low = numpy.where(numpy.isfinite(high), exact - high, 0).astype(numpy.float64)
    return tuple(torch.from_numpy(numpy.ascontiguousarray(part)) for part in (high, low))
