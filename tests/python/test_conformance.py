"""The base of the conformance programs: a comparison that detects differences, and workers that may die."""

import argparse
import pathlib
import sys
import textwrap

import pytest
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "conformance"))

import contained
import lockstep
from zoo.training import Training, momentum


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return nn.functional.dropout(self.norm(self.linear(x)))


TRAINING = Training("net", Net, lambda: (torch.randn(8, 4),), lambda model, x: model(x).square().sum(), momentum)


def difference_of(change):
    """The findings if the loss function of one of two equal trainings is changed."""
    models = Net(), Net()
    models[1].load_state_dict(models[0].state_dict())
    reference = lockstep.Run(TRAINING, models[0], lockstep.uncompiled)
    changed = lockstep.Run(TRAINING, models[1], lambda loss: lambda *batch: change(models[1], loss(*batch)))
    return lockstep.first_difference(TRAINING, reference, changed)


def adds_to_a_gradient(model, loss):
    model.norm.bias.register_hook(lambda g: g + 1e-6)
    return loss


def adds_to_a_buffer(model, loss):
    model.norm.running_mean.data += 1e-7  # a saved tensor: the backward must not raise an error
    return loss


def adds_to_a_parameter(model, loss):
    with torch.no_grad():
        model.linear.bias[0] = model.linear.bias[0].nextafter(torch.tensor(9.0))
    return loss


def draws(model, loss):
    torch.rand(1)
    return loss


@pytest.mark.parametrize(
    "change, found",
    [
        (lambda model, loss: loss, ""),
        (lambda model, loss: loss + 1e-4, "step 0: loss: values"),
        (lambda model, loss: loss.detach().requires_grad_(), "step 0: gradient of linear.weight: none, in eager there"),
        (adds_to_a_gradient, "step 0: gradient of norm.bias: values"),
        (adds_to_a_parameter, "step 0: linear.bias: values"),
        (adds_to_a_buffer, "step 0: norm.running_mean: values"),
        (draws, "step 0: generator: values"),
    ],
)
def test_a_difference_is_found(change, found):
    difference = difference_of(change)
    assert difference.startswith(found) and bool(difference) == bool(found)


def test_bits_and_strides_are_compared():
    x = torch.zeros(2, 3)
    assert lockstep.differ(x, x.clone()) == ""
    assert "values" in lockstep.differ(x, -x)
    assert "strides" in lockstep.differ(x, torch.zeros(3, 2).T)
    assert lockstep.differ(x.log() * 0, x.log() * 0) == ""


@pytest.mark.parametrize("through", ["compile", "dynamo"])
def test_a_training(through):
    outcome = lockstep.train(TRAINING, through)
    assert outcome["status"] == "passed"
    assert outcome["compiled_calls"] == lockstep.STEPS


@pytest.mark.parametrize(
    "loss, status, detail",
    [
        (lambda model, x: model(x).sum() * x.sum().item(), "refused", "found aten::_local_scalar_dense"),
        (lambda model, x: model(x).sum() * float("nan"), "failed", "the loss in eager is nan"),
        (lambda model, x: model(x, x).sum(), "failed", "positional arguments"),
    ],
)
def test_what_does_not_train(loss, status, detail):
    outcome = lockstep.train(Training("net", Net, TRAINING.batch, loss), "compile")
    assert outcome["status"] == status
    assert detail in outcome["detail"]


def test_a_model_that_differs_through_dynamo_alone():
    def loss(model, x):
        return model(x).sum() * (2 if torch.compiler.is_compiling() else 3)

    outcome = lockstep.train(Training("net", Net, TRAINING.batch, loss), "dynamo")
    assert outcome["status"] == "as Dynamo"
    assert outcome["detail"].startswith("step 0: loss: values")


def test_calls_that_ran_eagerly_are_found():
    counts = {"eager_calls": 2, "eager_reasons": ["too many"], "compiled_calls": 5}
    assert lockstep.not_compiled(counts, 5) == "2 eager calls: too many"
    assert lockstep.not_compiled(counts | {"eager_calls": 0}, 5) == ""
    assert "expected 6" in lockstep.not_compiled(counts | {"eager_calls": 0}, 6)


def test_a_crash_is_a_result_and_a_run_goes_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(f"""
        import os, sys
        sys.path.insert(0, {str(pathlib.Path(contained.__file__).parent)!r})
        import contained

        def run(case):
            yield {{"begun": case}}
            print("no answer")
            if case == ["dies"]:
                os.abort()
            if case == ["hangs"]:
                while True:
                    pass

        contained.serve(run)
    """))
    arguments = argparse.Namespace(out=tmp_path / "out", jobs=1, fresh=False)

    def run(*cases):
        heard = []
        contained.run_cases(str(script), [(case,) for case in cases], arguments, seconds=2, request=list,
                            record=lambda answers: {"answers": answers}, progress=lambda kept, *_: heard.append(kept["answers"]))
        return heard

    assert run("lives", "dies", "hangs", "lives too") == [
        [{"begun": ["lives"]}],
        [{"begun": ["dies"]}, {"crashed": "exit -6"}],
        [{"begun": ["hangs"]}, {"crashed": "exit -9"}],
        [{"begun": ["lives too"]}],
    ]
    assert run("lives", "new") == [[{"begun": ["new"]}]]
    assert len(contained.results_in(arguments.out)) == 5
