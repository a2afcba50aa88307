"""antegrad.save_chrome_trace: compilations and steps by operators, for Perfetto."""

import json

import pytest
import torch
from torch import nn

import antegrad


def traced(compiled, path):
    antegrad.save_chrome_trace(compiled, path)
    return json.loads(path.read_text())["traceEvents"]


def names(events, phase):
    return [event["name"] for event in events if event["ph"] == phase]


def processes(events):
    return {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}


def test_a_compiled_function_shows_its_compilation_and_a_step(tmp_path):
    step = antegrad.compile(lambda x, w: (x @ w).sin().exp().sum(), name="energy", partition="min_cut")
    step(torch.randn(8, 8), torch.randn(8, 8, requires_grad=True)).backward()
    events = traced(step, tmp_path / "trace.json")
    assert list(processes(events).values()) == ["energy [0] compilation", "energy [0] step, as planned"]
    slices = [event for event in events if event["ph"] == "X"]
    assert {"capture", "simplify", "dce", "plan and split", "build"} <= set(names(slices, "X"))
    again = [event["name"] for event in slices if event["args"].get("recomputed")]
    assert again == ["sin", "exp"] or "sin" in again
    (program,) = step.report().programs
    live = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert max(live) >= program.predicted_peak_bytes
    simplify, dce = ([s for s in program.stages if s.name == name][0] for name in ("simplify", "dce"))
    assert simplify.start_ms <= dce.start_ms
    assert dce.start_ms + dce.milliseconds <= simplify.start_ms + simplify.milliseconds


def test_all_graphs_of_a_model_are_in_one_trace(tmp_path):
    class Broken(nn.Module):
        def forward(self, x):
            x = x.sin()
            torch._dynamo.graph_break()
            return x.cos()

    model = torch.compile(Broken(), backend=antegrad.backend)
    model(torch.randn(4, requires_grad=True)).sum().backward()
    found = processes(traced(model, tmp_path / "trace.json"))
    assert len(found) == 4 and sorted(found) == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="expected what antegrad.compile"):
        antegrad.save_chrome_trace(Broken(), tmp_path / "trace.json")
