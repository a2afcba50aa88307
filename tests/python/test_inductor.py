"""antegrad.inductor: memory budgets under Inductor are measured and held, or a warning or an error says by how much they are not."""

import warnings

import antegrad
import pytest
import torch
from antegrad._measured_step import MeasuredStep
from torch import nn
from torch.profiler import ProfilerActivity, profile

MIB = 2**20
# Until no other plan is tried, if the first one is the smallest: two for it, and two with Inductor kept to it.
STEPS_OF_SMALLEST = 4
# Two for each of four plans, the first and three replans. The search ends before the next one.
STEPS_OF_SEARCH = 8


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def mlp(layers=4, width=128):
    layer = lambda: (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())
    return nn.Sequential(*(module for _ in range(layers) for module in layer())), torch.randn(1024, width)


def step(model, x):
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters())]


def profiled_peak(run):
    """The peak of live bytes, as PyTorch's profiler records it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = run()
    live = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    del kept
    return most


def test_the_measured_peak_is_that_of_the_profiler():
    model, x = mlp()
    compiled = torch.compile(lambda x: model(x).square().mean(), backend="aot_eager")
    compiled(x).backward()
    model.zero_grad()

    def run():
        loss = compiled(x)
        loss.backward()
        return loss

    peaks = []
    loss = MeasuredStep(peaks.append).run(compiled, [x])
    assert peaks == []
    loss.backward()
    del loss
    model.zero_grad()
    assert peaks[0] == pytest.approx(profiled_peak(run), abs=1024)  # scalars, rounded


def test_what_happens_between_the_passes_does_not_count():
    model, x = mlp(layers=1)
    compiled = torch.compile(model, backend="aot_eager")
    peaks = []
    for extra in (0, 4 * MIB):
        y = MeasuredStep(peaks.append).run(compiled, [x])
        between = torch.empty(extra, dtype=torch.uint8)
        y.sum().backward()
        del between
    assert peaks[0] == peaks[1]


@pytest.mark.long
def test_a_budget_is_held_and_gradients_are_eagers():
    model, x = mlp()
    expected = step(model, x)

    def measured(**options):
        backend = antegrad.inductor(replans=0, **options)
        compiled = torch.compile(model, backend=backend)
        with warnings.catch_warnings(action="ignore"):
            for _ in range(3):
                step(compiled, x)
        [record] = backend.records
        return record.measured_bytes

    usual, smallest = measured(memory_budget="1GiB"), measured(memory_budget="64KiB")
    assert 0 < smallest < usual < 1024 * MIB
    budget = (usual + smallest) // 2
    backend = antegrad.inductor(memory_budget=budget)
    held = torch.compile(model, backend=backend)
    for _ in range(STEPS_OF_SEARCH + 1):
        found = step(held, x)
        for a, b in zip(found, expected):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)
    [record] = backend.records
    assert record.measured_bytes <= budget
    assert record.recomputed > 0
    assert backend.graphs[0].source is None, "the search ended"


def test_a_budget_that_no_plan_holds_is_said_with_both_numbers():
    model, x = mlp(layers=2)
    backend = antegrad.inductor(memory_budget="64KiB")
    compiled = torch.compile(model, backend=backend)
    for _ in range(STEPS_OF_SMALLEST):
        step(compiled, x)
    with pytest.warns(UserWarning, match=r"memory budget of 65536 bytes; found \d+ bytes"):
        step(compiled, x)
    assert len(step(compiled, x)) == 9  # goes on with the smallest plan


def test_as_an_error_it_leaves_everything_as_it_was():
    model, x = mlp(layers=2)
    compiled = torch.compile(model, backend=antegrad.inductor(memory_budget="64KiB", over_budget="error"))
    gradients = [step(compiled, x) for _ in range(STEPS_OF_SMALLEST)][-1]
    state = torch.get_rng_state()
    for _ in range(2):
        with pytest.raises(antegrad.BudgetError, match=r"memory budget of 65536 bytes; found \d+ bytes"):
            compiled(x)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, p.grad) for a, p in zip(gradients[1:], model.parameters()))


def test_options_are_checked_at_once():
    for wrong in ({"over_budget": "loud"}, {"replans": -1}, {"inductor": {"custom_partitioner_fn": None}},
                  {"memory_budget": "12 parsecs"}, {"memory_bugdet": 1}):
        with pytest.raises(antegrad.OptionError):
            antegrad.inductor(**wrong)
    model, x = mlp(layers=1)
    with pytest.raises(Exception, match="inductor=\\{...\\}"):
        torch.compile(model, backend=antegrad.inductor(), options={"max_autotune": True})(x)


def test_settings_of_inductor_are_passed_on():
    seen = []

    def note(graph):
        seen.append(graph)

    model, x = mlp(layers=1)
    step(torch.compile(model, backend=antegrad.inductor(inductor={"post_grad_custom_post_pass": note})), x)
    assert len(seen) == 2
