"""tests/tools/fx_to_agraph.py: its output is AOTAutograd's joint graph, bit for bit."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.utils._pytree as pytree
from agraph_interpreter import Graph
from torch._functorch._aot_autograd import descriptors
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

TESTS = pathlib.Path(__file__).parent.parent
TOOL = TESTS / "tools" / "fx_to_agraph.py"
sys.path.insert(0, str(TOOL.parent))

from agraph import Unsupported  # noqa: E402
from fx_graph import convert, meta_of  # noqa: E402
from fx_to_agraph import MODELS, convert_model, write  # noqa: E402
from joint_graph import capture, with_budget  # noqa: E402


def text_of(model, args, name="test"):
    joint = capture(model, args)
    return joint, convert(name, joint)[0].text()


def random_like(value, real):
    """Fills a tensor with random numbers. Integers may be indices and stay."""
    if real is not None and not value.dtype.is_floating_point:
        return real.detach().clone()
    size = value.untyped_storage().nbytes() // value.dtype.itemsize
    memory = torch.rand(size).to(value.dtype)
    return memory.as_strided(value.shape, value.stride(), value.storage_offset())


def bits(tensor):
    return tensor.contiguous().flatten().view(torch.uint8)


def expect_same(joint, text):
    """Runs the text and the graph it was made from on the same inputs."""
    graph = joint.module.graph
    placeholders = graph.find_nodes(op="placeholder")
    tensors = [random_like(n.meta["val"], joint.tensors.get(n.meta["desc"])) for n in placeholders]
    primals = [t for n, t in zip(placeholders, tensors) if not isinstance(n.meta["desc"], descriptors.TangentAOTInput)]
    torch.manual_seed(3)
    outputs = pytree.tree_leaves(joint.module(primals, tensors[len(primals):]))
    position = {n.meta["desc"]: index for index, n in enumerate(placeholders)}
    expected = {}
    for output, tensor in zip(graph.output_node().meta["desc"], outputs):
        if isinstance(output, descriptors.PlainAOTOutput):
            expected[f"result {output.idx}"] = tensor
        elif isinstance(output, descriptors.InputMutationAOTOutput):
            expected[f"mutated {position[output.mutated_input]}"] = tensor
        elif tensor is not None:
            expected[f"gradient {position[output.grad_of]}"] = tensor
    torch.manual_seed(3)
    found, results = {}, 0
    constants = [getattr(joint.module, node.target) for node in graph.find_nodes(op="get_attr")]
    for record, tensor in Graph(text).run([*primals, *constants, *tensors[len(primals):]]):
        words = record.removesuffix(" grad").split()
        if words == ["result"]:
            words.append(str(results))
            results += 1
        found[" ".join(words)] = tensor
    assert found.keys() == expected.keys()
    assert any(name.startswith("gradient") for name in found)
    for name, tensor in expected.items():
        assert (found[name] is None) == (tensor is None), name
        assert tensor is None or found[name].dtype == tensor.dtype, name
        assert tensor is None or bits(found[name]).equal(bits(tensor)), name


@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_the_same(name):
    torch.manual_seed(0)
    model, args = MODELS[name]()
    expect_same(*text_of(model.train(), args, name))


class Function(torch.nn.Module):
    """A function with a parameter `w`, as a module."""

    def __init__(self, function, *sizes):
        super().__init__()
        self.function = function
        self.w = torch.nn.Parameter(torch.rand(sizes or (4, 6)))

    def forward(self, *args):
        return self.function(self.w, *args)


# Operators with kinds of arguments that the models lack.
@pytest.mark.parametrize("function", [
    lambda w: w.div(0.3, rounding_mode="floor").sum() + w.clamp(min=float("-inf")).sum(),
    lambda w: torch.nn.functional.interpolate(w[None, None], scale_factor=(2.0, 1.5), mode="bilinear").sum(),
    lambda w: torch.bernoulli(w.detach(), 0.5).mul(w).sum() + torch.rand_like(w).mul(w).sum(),
    lambda w: w.to(torch.float64).clone(memory_format=torch.contiguous_format).var(0),
    lambda w: torch.where(w > 0.5, w, 2).t().contiguous()[1:, ::2].prod(),
    lambda w: torch.stack(w.tensor_split(2))[:, torch.tensor([1, 0])] + True,
    lambda w: (w * 2).unfold(1, 2, 2).as_strided((3, 2), (2, 1), 1).mT,
    lambda w: (torch.fft.rfft(w) * 1j).abs().sum(),
    lambda w: w.sort(0)[0].topk(2)[0].sum(),
    lambda w: (w.sum(), None, w.detach() * 2),
])
def test_a_function_computes_the_same(function):
    expect_same(*text_of(Function(function), ()))


def test_gradients_that_share_memory_are_copied():
    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Parameter(torch.rand(3)) for _ in range(2))

        def forward(self):
            return (self.a + self.b).exp()

    joint, text = text_of(Sum(), ())
    assert text.count("aten::clone.default") == 1 and "copy of" in text
    expect_same(joint, text)


def two_views(w):
    y = w * 2
    return y.view(-1), y.t()


@pytest.mark.parametrize("function, message", [
    (lambda w: w.t(), "found no joint graph"),
    (lambda w: [y.t() for y in (w * 2).split(2)], "expected results that share no memory"),
    (two_views, "expected results, written inputs and gradients"),
    (lambda w: torch.cond(w.sum() > 0, torch.sin, torch.cos, (w,)), "expected tensors and no code"),
    (lambda w: (w.sum(), 3), "expected results that are tensors"),
])
def test_what_the_tool_cannot_write_is_refused(function, message):
    with pytest.raises(Unsupported, match=message):
        text_of(Function(function), ())


def test_symbolic_sizes_are_refused():
    shapes = ShapeEnv()
    with FakeTensorMode(shape_env=shapes):
        tensor = torch.empty(shapes.create_unbacked_symint(), 4)
    with pytest.raises(Unsupported, match="expected sizes that are numbers"):
        meta_of(tensor)


def test_names_and_phases_are_those_of_the_reference():
    torch.manual_seed(0)
    model, args = MODELS["mlp"]()
    joint, text = text_of(model.train(), args)
    graph = Graph(text)
    nodes = [n for n in joint.module.graph.nodes if n.op != "output" and isinstance(n.meta["val"], torch.Tensor)]
    assert [name for name in graph.names if name] == [n.name for n in nodes]
    calls = [n for n in joint.module.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    assert [f"is_{phase}" for phase in graph.phases] == [n.meta["partitioner_tag"] for n in calls]
    (_, default), (_, min_cut) = joint.saved
    assert {*default, *min_cut} <= graph.names.keys()


def run(*arguments, **environment):
    return subprocess.run([sys.executable, str(TOOL), *map(str, arguments)], capture_output=True, text=True,
                          env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment)


@pytest.mark.long
def test_what_is_checked_in_is_what_the_tool_writes(tmp_path):
    kept = TESTS / "data" / "reference"
    version = json.loads((kept / "mlp.saved.json").read_text())["reference"]
    if version != "torch " + torch.__version__.split("+")[0]:
        pytest.skip(f"the graphs are those of {version}")
    done = run("all", "--out", tmp_path, PYTHONHASHSEED="7")
    assert done.returncode == 0, done.stderr
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {file.name for file in kept.iterdir() if file.is_file()}
    for name in names:
        assert (tmp_path / name).read_bytes() == (kept / name).read_bytes(), name


def test_a_model_of_the_user_and_a_budget(tmp_path):
    (tmp_path / "mine.py").write_text("""
from torch import nn, ones
def small():
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh()), (ones(64, 8),)
""")
    done = run("model", "mine:small", "--budget", "0", "--out", tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "mine.small.saved.json").read_text())
    default, _, budget = saved["partitions"]
    assert (default["partitioner"], budget["options"]) == ("default_partition", {"activation_memory_budget": 0.0})
    assert budget["saved_bytes"] < default["saved_bytes"]
    names = Graph((tmp_path / "mine.small.agraph").read_text()).names
    assert all(names[name] == value for partition in saved["partitions"] for name, value in partition["saved"].items())


@pytest.mark.skipif("ANTEGRAD_CLI" not in os.environ, reason="ANTEGRAD_CLI names the command-line tool")
def test_the_command_line_verifies_what_is_written(tmp_path):
    write(tmp_path, *convert_model("vae"))
    verify = [os.environ["ANTEGRAD_CLI"], "verify"]
    assert "vae: valid" in subprocess.run([*verify, tmp_path / "vae.agraph"], capture_output=True, text=True).stdout
    broken = (tmp_path / "vae.agraph").read_text().replace("&0 = aten::t", "= aten::t", 1)
    assert subprocess.run([*verify, "-"], input=broken, text=True, capture_output=True).returncode == 1


@pytest.mark.parametrize("name, message", [
    ("nobody", "expected one of mlp"), ("math:nobody", "a function nobody"), ("nowhere:f", "in a module nowhere"),
    ("platform:machine", "expected a module and a tuple of arguments")])
def test_unknown_models(name, message, tmp_path):
    done = run("model", name, "--out", tmp_path)
    assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
