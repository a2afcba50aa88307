"""What torch.profiler shows of a compiled function."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import antegrad


def energy(x, w):
    return (x @ w).sin().exp().sum()


@pytest.fixture
def step():
    return antegrad.compile(energy, partition="min_cut", lowering="off")


@pytest.fixture
def arguments():
    return torch.randn(8, 8), torch.randn(8, 8, requires_grad=True)


def profiled(run, **options):
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        run()
    return profiler


def test_forward_and_backward_are_named_and_linked(step, arguments, tmp_path):
    step(*arguments).backward()
    profiler = profiled(lambda: step(*arguments).backward())
    events = {event.name: event for event in profiler.events()}
    forward, backward = events["energy"], events["AntegradBackward:energy"]
    assert forward.sequence_nr == backward.sequence_nr >= 0
    assert "aten::mm" in [child.name for child in forward.cpu_children]
    assert "AntegradRecompute:aten::sin.default" in [child.name for child in backward.cpu_children]
    assert "AntegradCapture:energy" in events  # the second call is audited
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    arrows = [event for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if event.get("cat") == "fwdbwd"]
    assert {event["ph"] for event in arrows} == {"s", "f"}


@pytest.mark.parametrize("options", [
    {"record_shapes": True}, {"profile_memory": True}, {"with_stack": True}, {"with_modules": True}, {"with_flops": True},
])
def test_a_first_call_may_be_profiled(step, arguments, options, capfd):
    def run():
        for _ in range(3):  # captured, audited, run
            step(*arguments).backward()

    profiler = profiled(run, **options)
    names = [event.name for event in profiler.events()]
    assert "AntegradCapture:energy" in names and "AntegradCompile:energy" in names
    assert names.count("energy") == 3
    assert step.report().eager_calls == 0
    assert "Exception in RecordFunction callback" not in capfd.readouterr().err


def test_regions_of_dynamo_are_named(arguments):
    model = torch.compile(energy, backend=antegrad.backend)
    model(*arguments).backward()
    names = [event.name for event in profiled(lambda: model(*arguments).backward()).events()]
    (name,) = (report.name for report in antegrad.report(model))
    assert name in names and f"AntegradBackward:{name}" in names
