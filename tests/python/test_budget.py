"""Memory budgets from Python."""

import pytest
import torch

import antegrad
from eager import same


def loss(x, w):
    for _ in range(6):
        x = torch.nn.functional.dropout(torch.nn.functional.gelu(x @ w), 0.2)
    return x.square().mean()


def gradients(function, x, w):
    torch.manual_seed(3)
    return torch.autograd.grad(function(x, w), [x, w])


@pytest.fixture
def arguments():
    torch.manual_seed(0)
    return torch.randn(256, 64, requires_grad=True), torch.randn(64, 64, requires_grad=True)


@pytest.mark.parametrize("options", [{"memory_share": 0.0}, {"memory_share": 0.5}, {"memory_budget": "1GiB"},
                                     {"memory_budget": 1 << 30, "budget_effort": "thorough"},
                                     {"memory_share": 0.5, "budget_profile": "measured"}])
def test_gradients_are_those_of_eager(arguments, options):
    step = antegrad.compile(loss, **options)
    for wanted, found in zip(gradients(loss, *arguments), gradients(step, *arguments)):
        assert same(wanted, found)
    report = step.report()
    assert report.eager_calls == 0
    assert report.programs[0].memory_budget_bytes > 0
    assert report.programs[0].smallest_budget_bytes <= report.programs[0].eager_peak_bytes


@pytest.mark.parametrize("estimator", ["flops", "testing", "profile"])
@pytest.mark.parametrize("solver", ["dp", "greedy"])
def test_the_ratio_of_the_reference(arguments, solver, estimator):
    saved = []
    for ratio in [0.0, 0.5, 1.0]:
        step = antegrad.compile(loss, activation_memory_budget=ratio, activation_memory_budget_solver=solver,
                                activation_memory_budget_runtime_estimator=estimator)
        for wanted, found in zip(gradients(loss, *arguments), gradients(step, *arguments)):
            assert same(wanted, found)
        assert step.report().eager_calls == 0
        saved.append(step.report().programs[0].saved_bytes)
    assert saved[0] < saved[1] < saved[2]


def test_a_budget_that_is_too_small_names_the_smallest(arguments):
    step = antegrad.compile(loss, memory_budget="1KiB")
    with pytest.raises(antegrad.BudgetError, match="at least"):
        step(*arguments)


def test_torch_compile_takes_a_budget(arguments):
    step = torch.compile(loss, backend=antegrad.backend, options={"memory_share": 0.25})
    for wanted, found in zip(gradients(loss, *arguments), gradients(step, *arguments)):
        assert same(wanted, found)
    assert antegrad.report(step)[0].programs[0].recompute_share > 0


@pytest.mark.parametrize("options", [{"memory_budget": "many"}, {"memory_budget": -1}, {"memory_budget": True},
                                     {"memory_share": 2.0}, {"memory_share": "half"}, {"budget_effort": "huge"},
                                     {"budget_profile": 1}, {"activation_memory_budget": 1.5},
                                     {"activation_memory_budget": "half"},
                                     {"activation_memory_budget_solver": "best"}])
def test_bad_values_are_refused(options):
    with pytest.raises(antegrad.OptionError):
        antegrad.compile(loss, **options)


def test_save_graph_writes_what_the_command_line_reads(arguments, tmp_path):
    step = antegrad.compile(loss, memory_share=0.5)
    step.warmup(*arguments)
    step.save_graph(tmp_path / "step.agraph")
    text = (tmp_path / "step.agraph").read_text()
    assert text.startswith("antegrad.graph 1") and '"partitioner": "budget"' in text
