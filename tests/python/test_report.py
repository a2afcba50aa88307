"""antegrad.report of what wraps compiled models, and as text and HTML."""

import base64
import re
import xml.etree.ElementTree

import pytest
import torch
import torch.distributed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import antegrad


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 4)

    def forward(self, x):
        return x + self.second(self.first(x).tanh())


class Model(nn.Module):
    def __init__(self, blocks=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Broken(Model):
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            torch._dynamo.graph_break()
        return x


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path_factory.mktemp('group')}/file", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def compiled(model):
    return torch.compile(model, backend=antegrad.backend)


def in_place(model):
    model.compile(backend=antegrad.backend)
    return model


def blocks_compiled(model):
    for block in model.blocks:
        block.compile(backend=antegrad.backend)
    return model


def sharded(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def calls(model):
    """How often each graph of the model ran in a step."""
    model(torch.randn(3, 4)).sum().backward()
    reports = antegrad.report(model)
    assert all(report.eager_calls == 0 and report.programs for report in reports)
    return [report.compiled_calls for report in reports]


WRAPPED = {
    "compiled": (compiled, [1]),
    "in place": (in_place, [1]),
    "its blocks": (blocks_compiled, [1, 1]),
}


@pytest.mark.parametrize("how", WRAPPED)
def test_of_a_model(how):
    compile, expected = WRAPPED[how]
    assert calls(compile(Model())) == expected


@pytest.mark.parametrize("how", WRAPPED)
def test_of_what_ddp_wraps(how, mesh):
    compile, expected = WRAPPED[how]
    assert calls(DistributedDataParallel(compile(Model()))) == expected


def test_of_a_compiled_ddp(mesh):
    assert calls(compiled(DistributedDataParallel(Model()))) == [1]


@pytest.mark.parametrize("how", WRAPPED)
def test_of_what_fsdp_wraps(how, mesh):
    compile, _ = WRAPPED[how]
    assert sum(calls(compile(sharded(Model(), mesh)))) >= 1


def test_of_several_graphs():
    assert calls(compiled(Broken())) == [1, 1]


def test_of_a_module_that_holds_a_compiled_function():
    model = Model()
    model.blocks[0].forward = antegrad.compile(model.blocks[0].forward)
    assert calls(model) == [1]


def test_nothing_compiled_is_an_error():
    with pytest.raises(TypeError, match="after its first call; found Model"):
        antegrad.report(Model())


def pictures(html):
    return [xml.etree.ElementTree.fromstring(base64.b64decode(text))
            for text in re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', html)]


def test_html_is_the_text_and_a_picture_for_each_program():
    step = antegrad.compile(lambda x: (x.exp() < 3, x.exp().sin().sum())[1], name="a<b", memory_share=0.5)
    for size in (1000, 2000):
        step(torch.randn(size, requires_grad=True)).backward()
    report = step.report()
    html = report._repr_html_()
    assert "a&lt;b" in html and "a<b" not in html and f"{report.programs[0].graph_hash}" in html
    shown = pictures(html)
    assert len(shown) == 2
    words = "".join(shown[0].itertext())
    assert "a<b: memory alive over a step" in words and "budget" in words and "backward" in words


def test_html_of_many_programs_has_pictures_of_the_newest():
    step = antegrad.compile(lambda x: x.exp().sum())
    for size in range(2, 12):
        step(torch.randn(size, requires_grad=True)).backward()
    html = step.report()._repr_html_()
    assert len(pictures(html)) == 8 and "2 older ones" in html


def test_several_reports_are_one_text_and_one_page():
    model = compiled(Broken())
    calls(model)
    reports = antegrad.report(model)
    assert str(reports) == "".join(str(report) for report in reports) == repr(reports)
    assert reports._repr_html_() == "".join(report._repr_html_() for report in reports)
    assert len(pictures(reports._repr_html_())) == 2


def test_live_bytes_are_those_of_the_prediction():
    step = antegrad.compile(lambda x: torch.nn.functional.gelu(x).sin().sum(), partition="min_cut", lowering="off")
    step(torch.randn(1000, requires_grad=True)).backward()
    program = step.report().programs[0]
    assert len(program.live_bytes) == program.forward_nodes + program.backward_nodes
    assert max(program.live_bytes) == program.predicted_peak_bytes
    assert sum(end - begin for begin, end in program.recomputed_at) > 0
    assert all(program.forward_nodes <= begin < end <= len(program.live_bytes) for begin, end in program.recomputed_at)
