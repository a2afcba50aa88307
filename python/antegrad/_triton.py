"""Raw Triton kernels in Dynamo's graphs.

Dynamo records a launch as a call of a higher-order operator, which only its own passes understand. Here it becomes a call of
an operator whose schema says which tensors the kernel writes. So the capture treats it as any custom operator that writes:
one node, which launches the kernel on copies of what it writes. As in eager, no version counter rises.
"""

import torch
from torch._higher_order_ops import triton_kernel_wrap
from torch.library import Library, fallthrough_kernel

from antegrad._C import CaptureError
from antegrad._graphs import change_nodes

_launch = torch.ops.higher_order.triton_kernel_wrapper_mutation
_library = Library("antegrad_triton", "FRAGMENT")
_names = {}  # of the operators, by what tells them apart


def take_kernels(graph_module):
    """Turns the launches of Triton kernels in a Dynamo graph into calls of operators. Modifies the graph."""
    return change_nodes(graph_module, _launch, _take)


def run_kernel(name, tensors, numbers, grid):
    sizes = [size for block in grid for size in block]
    getattr(torch.ops.antegrad_triton, name)(*tensors, numbers, sizes, [len(block) for block in grid])


def refuse_kernel(name):
    raise CaptureError(
        "antegrad: expected Triton kernels whose tensor descriptors do not change from call to call; found one whose do, "
        f"{name}; wrap it with torch.library.triton_op")


def _take(node):
    launch = dict(node.kwargs)
    grid, arguments = launch.pop("grid"), launch.pop("kwargs")
    examples = {name: _example_of(value) for name, value in arguments.items()}
    tensors = [name for name, example in examples.items() if isinstance(example, torch.Tensor)]
    numbers = [name for name in arguments if name not in tensors]
    node.args = ()
    if _holds_nodes(launch):
        node.target, node.kwargs = refuse_kernel, {"name": _kernel_name(launch)}
        return
    written = set(triton_kernel_wrap.get_mutated_tensors(**launch, kwargs=examples))
    node.target = run_kernel
    node.kwargs = {
        "name": _operator(launch, tensors, numbers, written),
        "tensors": [arguments[name] for name in tensors],
        "numbers": [arguments[name] for name in numbers],
        "grid": grid,
    }


def _example_of(value):
    """What Dynamo traced the graph with."""
    return value.meta.get("example_value") if isinstance(value, torch.fx.Node) else value


def _holds_nodes(value):
    found = []
    torch.fx.node.map_arg(value, found.append)
    return bool(found)


def _kernel_name(launch):
    return getattr(triton_kernel_wrap.kernel_side_table.get_kernel(launch["kernel_idx"]), "__name__", "a kernel")


def _operator(launch, tensors, numbers, written):
    """The name of an operator that launches a kernel with these constants."""
    key = repr((launch, tensors, numbers, sorted(written)))
    if key not in _names:
        _names[key] = f"kernel_{len(_names)}"
        _define(_names[key], launch, tensors, numbers, written)
    return _names[key]


def _define(name, launch, tensors, numbers, written):
    arguments = [f"Tensor({'a' * (i + 1)}!) t{i}" if tensor in written else f"Tensor t{i}" for i, tensor in enumerate(tensors)]
    _library.define(f"{name}({', '.join([*arguments, 'Scalar[] numbers', 'int[] grid', 'int[] ranks'])}) -> ()")

    def run(*values):
        *given, given_numbers, sizes, ranks = values
        sizes = iter(sizes)
        triton_kernel_wrap.triton_kernel_wrapper_mutation_dense(
            **launch,
            grid=[tuple(next(sizes) for _ in range(rank)) for rank in ranks],
            kwargs={**dict(zip(tensors, given)), **dict(zip(numbers, given_numbers))})

    for key in ("CPU", "CUDA"):
        _library.impl(name, run, key)
    # A launch is nothing to autograd, and raises no version.
    for key in ("Autograd", "ADInplaceOrView"):
        _library.impl(name, fallthrough_kernel, key)
