"""Samples of PyTorch's databases of operators and modules, each run eagerly and compiled, and compared bit for bit."""

import collections
import dataclasses
import functools
import re
import warnings

import torch
import torch.utils._pytree as pytree
from outcome import first_line, outcome_of
from torch.testing._internal import common_methods_invocations as database

import modules

import antegrad

DTYPES = ("float32", "float64", "bfloat16", "int64")
KERNEL = "kernel"  # in the place of the reason why a node has none
SHAPE_FACTS = ("shape_functions", "meta_kernels", "real_kernels", "checked", "skipped")

# Some operators are wrapped to set a seed before they draw, which capture refuses. The harness sets the seed instead.
database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


@functools.cache
def operators():
    """The subjects of samples by name: operators, and modules as functions of their parameters."""
    return {name_of(op): op for op in database.op_db} | {module.name: module for module in modules.all()}


def cases_of(part, only):
    """Names with dtypes whose position modulo `part[1]` is `part[0]`."""
    k, n = part
    cases = sorted(
        (name, dtype) for name, op in operators().items() for dtype in DTYPES
        if getattr(torch, dtype) in op.supported_dtypes("cpu")
    )
    return [case for i, case in enumerate(cases) if i % n == k and re.search(only, case[0])]


def answers_of(request):
    """The worker's answers for a case."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    (name, dtype), way = request
    shapes, kernels = collections.Counter(), collections.Counter()
    yield from run_case(operators()[name], getattr(torch, dtype), Way(**way), shapes, kernels)
    yield {"shapes": [[*key, count] for key, count in sorted(shapes.items())]}
    yield {"kernels": [[*key, count] for key, count in sorted(kernels.items())]}


@dataclasses.dataclass
class Way:
    """The way in which samples are compiled."""

    through: str = "compile"  # or "dynamo"
    cross_check: str = "off"  # Options::cross_check_shapes
    lowering: str = "off"  # Options::lowering

    def compile(self, function):
        if self.through == "compile":
            return antegrad.compile(
                function, cross_check_shapes=self.cross_check, lowering=self.lowering, keep_slow_kernels=True
            )
        torch._dynamo.reset()
        return torch.compile(function, backend=antegrad.backend, dynamic=False)


def run_case(op, dtype, way, shapes, kernels):
    """Results of all samples. `shapes` counts the findings of the cross-check by operator and fact, `kernels` nodes by
    operator and the reason why no generated kernel computes them, or KERNEL."""
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    yield {"differentiable": differentiable}
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=differentiable)):
        yield {"begin": number}
        yield {"sample": number, **run_sample(op, sample, way, shapes, kernels)}


def run_sample(op, sample, way, shapes, kernels):
    leaves, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def outcome(compiler):
        call, held = (op.op, []) if isinstance(op, database.OpInfo) else sample.make()

        def function(*tensors):
            filled = list(leaves)
            for place, tensor in zip(places, tensors):
                filled[place] = tensor
            value, args, kwargs = pytree.tree_unflatten(filled, structure)
            return call(value, *args, **kwargs)

        tensors = [copy_of(leaves[i]) for i in places]
        function = compiler(function)
        torch.manual_seed(1)
        result = function(*tensors)
        found = pytree.tree_leaves(result)
        tensors += held
        roots = [t for t in found if isinstance(t, torch.Tensor) and t.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        gradients = []
        if roots and wanted:
            generator = torch.Generator().manual_seed(2)
            tangents = [
                torch.randn(r.shape, generator=generator, dtype=torch.float64).to(r.dtype) for r in roots
            ]
            gradients = torch.autograd.grad(roots, wanted, tangents, allow_unused=True)
        return found, gradients, tensors

    try:
        expected = outcome(lambda function: function)
    except Exception as error:  # eager refuses the sample, or its backward
        return {"status": "not in eager", "detail": first_line(error)}
    compiled = None

    def compiler(function):
        nonlocal compiled
        compiled = way.compile(function)
        return compiled

    try:
        found = outcome(compiler)
    except antegrad.ShapeMismatchError as error:
        return {"status": "failed", "kind": "ShapeMismatchError", "detail": first_line(error)}
    except Exception as error:
        return outcome_of(error)
    if way.through == "dynamo" and not antegrad._dynamo.functions_of(compiled):
        return {"status": "refused", "kind": "Dynamo", "detail": "found nothing that Dynamo makes a graph of"}
    reports = antegrad.report(compiled)
    reports = reports if isinstance(reports, list) else [reports]
    if any(r.eager_calls for r in reports):
        return {"status": "failed", "kind": "eager call", "detail": ""}
    for program in (p for r in reports for p in r.programs):
        count_kernels(program, kernels)
        for name, check in program.shape_checks.items():
            for fact in SHAPE_FACTS:
                if getattr(check, fact):
                    shapes[name, fact] += getattr(check, fact)
            if check.mismatches:
                return {"status": "failed", "kind": "ShapeMismatchError", "detail": f"{name}: {check.mismatch}"}
    for what, a, b in zip(("result", "gradient", "input"), found, expected):
        if len(a) != len(b):
            return {"status": "failed", "kind": "different", "detail": f"{len(a)} {what}s, {len(b)} in eager"}
        for i, (x, y) in enumerate(zip(a, b)):
            difference = differ(x, y, strides=what != "gradient", op=op.name)
            if difference:
                return {"status": "failed", "kind": f"{what} differs", "detail": f"{what} {i}: {difference}"}
    return {"status": "passed"}


def count_kernels(program, kernels):
    for kernel in program.generated_kernels:
        kernels.update((name, KERNEL) for name in kernel.operators)
    for node, count in program.not_generated.items():
        name, reason = node.split(": ", 1)
        kernels[name, reason] += count


def copy_of(tensor):
    """A copy of a tensor: a leaf with its own memory, and the same strides if its elements do not overlap."""
    with torch.no_grad():
        copy = tensor.detach().clone(memory_format=torch.preserve_format)
        if tensor.layout == torch.strided and copy.stride() != tensor.stride() and 0 not in tensor.stride():
            extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
            copy = torch.empty(extent, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride()).copy_(tensor)
    return copy.detach().requires_grad_(tensor.requires_grad)


# Formulas that take another path for stand-ins and round differently, and operators whose eager results vary
# (docs/accuracy.md).
ROUNDED = ("prod", "cumprod", "masked.prod", "masked_fill", "nn.LinearCrossEntropyLoss.train", "linalg.lstsq")
# Results with uninitialised memory.
UNINITIALISED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


def differ(x, y, strides, op):
    rounded = () if op not in ROUNDED else (3e-2, 3e-2) if y is not None and y.dtype == torch.bfloat16 else (1e-4, 1e-4)
    if isinstance(y, torch.Tensor) != isinstance(x, torch.Tensor):
        return f"{type(x).__name__}, in eager {type(y).__name__}"
    if not isinstance(y, torch.Tensor):
        return "" if x is y or x == y or x != x and y != y else f"{x}, in eager {y}"
    for fact in ("dtype", "shape", "layout", "requires_grad"):
        if getattr(x, fact) != getattr(y, fact):
            return f"{fact} {getattr(x, fact)}, in eager {getattr(y, fact)}"
    if strides and x.layout == torch.strided and x.numel() > 1 and x.stride() != y.stride():
        return f"strides {x.stride()}, in eager {y.stride()}"
    x, y = x.detach().resolve_conj().resolve_neg(), y.detach().resolve_conj().resolve_neg()
    if op in UNINITIALISED:
        return ""
    if x.layout != torch.strided:
        x, y = x.to_dense(), y.to_dense()
    if x.dtype == torch.complex32:
        x, y = x.to(torch.complex64), y.to(torch.complex64)
    if torch.equal(x, y):
        return ""
    if x.is_complex():
        x, y = torch.view_as_real(x.contiguous()), torch.view_as_real(y.contiguous())
    if x.is_floating_point() and torch.equal(x.isnan(), y.isnan()):
        x, y = x.nan_to_num(0, 1e30, -1e30), y.nan_to_num(0, 1e30, -1e30)
        if torch.equal(x, y) or rounded and torch.allclose(x, y, *rounded):
            return ""
        return f"values, by up to {(x.double() - y.double()).abs().max().item():g}"
    return "values"
