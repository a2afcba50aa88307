"""Programs as CUDA graphs, seen from Python where there is no GPU (docs/gpu-graphs.md)."""

import pytest
import torch

import antegrad


def test_the_report_says_why_a_program_on_the_cpu_has_no_graph():
    step = antegrad.compile(lambda x: x.sin().sum(), gpu_graphs="on", lowering="off")
    x = torch.randn(8, requires_grad=True)
    step(x).backward()
    assert torch.equal(x.grad, x.detach().cos())
    forward, backward = step.report().programs[0].gpu_graphs
    assert (forward.phase, backward.phase) == ("forward", "backward")
    assert forward.refused == "aten::sin.default reads or makes a tensor on cpu"
    assert (forward.recorded, forward.replays, forward.bytes, forward.node_by_node) == (0, 0, 0, {})
    assert "GPU graphs" in str(step.report())


def test_they_are_off_by_default():
    step = antegrad.compile(torch.sin)
    step(torch.randn(8))
    assert step.report().programs[0].gpu_graphs == []
    with pytest.raises(antegrad.OptionError, match="off, on"):
        antegrad.compile(torch.sin, gpu_graphs="auto")
