"""Triton kernels in Dynamo's graphs. Without Triton, a class stands in for a kernel."""

import pytest
import torch
from eager import assert_as_eager
from torch._higher_order_ops import triton_kernel_wrap
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

import antegrad

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None


class Scale:
    """Computes out = x * factor, as a kernel of Triton would."""

    arg_names = ["x", "out", "factor", "BLOCK"]
    __name__ = "scale"

    def __init__(self):
        self.launches = []

    def __getitem__(self, grid):
        def launch(x, out, factor, BLOCK):
            self.launches.append((grid, BLOCK))
            out.data.copy_(x * factor)

        return launch


launch_in_graph = torch.ops.higher_order.triton_kernel_wrapper_mutation


def graph_of(kernel, example, body, descriptors=None):
    """The graph that Dynamo would make: body(graph, arguments, scale) adds nodes and returns the result."""
    constants = kernel_side_table.add_constant_args({"BLOCK": 16})
    index = kernel_side_table.add_kernel(kernel)
    graph = torch.fx.Graph()
    arguments = []
    for i in range(2):
        arguments.append(graph.placeholder(f"a{i}"))
        arguments[i].meta["example_value"] = example

    def call(function, *inputs):
        node = graph.call_function(function, inputs)
        node.meta["example_value"] = example
        return node

    def scale(x, out, factor):
        kwargs = {"kernel_idx": index, "constant_args_idx": constants, "grid": [(4, 1, 1)],
                  "tma_descriptor_metadata": descriptors(arguments) if descriptors else {},
                  "kwargs": {"x": x, "out": out, "factor": factor}}
        graph.call_function(launch_in_graph, (), kwargs)

    graph.output((body(call, arguments, scale),))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


@pytest.fixture
def analysed(monkeypatch):
    """What PyTorch's analysis, which needs Triton, would say."""
    monkeypatch.setattr(triton_kernel_wrap, "get_mutated_tensors", lambda **_: ["out"])


def test_a_kernel_that_writes_a_new_tensor(analysed):
    def body(call, arguments, scale):
        out = call(torch.empty_like, arguments[0])
        scale(call(torch.sin, arguments[0]), out, 3)
        return call(torch.mul, out, arguments[0])

    kernel = Scale()
    x = torch.randn(5, requires_grad=True)
    function = antegrad.backend(graph_of(kernel, x, body), [x, x])
    for _ in range(3):
        assert_as_eager(lambda a: function(a, a)[0], lambda a: (a.detach().sin() * 3) * a, (x,), [])
    assert kernel.launches == [((4, 1, 1), 16)] * len(kernel.launches)
    assert function.report().eager_calls == 0 and len(function.report().programs) == 1


def test_a_kernel_that_writes_an_argument(analysed):
    def body(call, arguments, scale):
        scale(arguments[0], arguments[1], 2)
        scale(arguments[1], arguments[1], 5)
        return call(torch.cos, arguments[1])

    x, out = torch.randn(5), torch.zeros(5)
    function = antegrad.backend(graph_of(Scale(), x, body), [x, out])
    for _ in range(2):
        out.zero_()
        version = out._version
        assert torch.equal(function(x, out)[0], (x * 2 * 5).cos())
        assert torch.equal(out, x * 2 * 5)
        assert out._version == version  # eager does not count what a kernel writes
    assert function.report().eager_calls == 0


def test_a_kernel_that_nobody_analysed():
    def body(call, arguments, scale):
        out = call(torch.empty_like, arguments[0])
        scale(arguments[0], out, 3)
        return out

    x = torch.randn(5)
    function = antegrad.backend(graph_of(Scale(), x, body), [x, x])
    before = x.clone()
    assert torch.equal(function(x, x)[0], x * 3)
    assert torch.equal(x, before)


def test_descriptors_of_the_call(analysed):
    def body(call, arguments, scale):
        out = call(torch.empty_like, arguments[0])
        scale(arguments[0], out, 3)
        return out

    x = torch.randn(5)
    function = antegrad.backend(graph_of(Scale(), x, body, lambda a: {"x": a[0]}), [x, x])
    with pytest.raises(antegrad.CaptureError, match="scale"):
        function(x, x)


if triton is not None:

    @triton.jit
    def scale_on_a_gpu(x, out, n, factor, BLOCK: tl.constexpr):
        places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = places < n
        tl.store(out + places, tl.load(x + places, mask=inside) * factor, mask=inside)


@pytest.mark.skipif(triton is None or not torch.cuda.is_available(), reason="needs Triton and a GPU")
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_kernel_of_triton(dynamic):
    def function(x):
        out = torch.empty_like(x)
        n = x.numel()
        scale_on_a_gpu[(triton.cdiv(n, 64),)](x.sin(), out, n, 3.0, BLOCK=64)
        return out * x

    compiled = torch.compile(function, backend=antegrad.backend, dynamic=dynamic)
    for size in (100, 200):
        x = torch.randn(size, device="cuda", requires_grad=True)
        assert_as_eager(compiled, function, (x,), [])
    assert all(report.eager_calls == 0 for report in antegrad.report(compiled))
