"""Numbers that change between calls of antegrad.compile, against eager."""

import math

import pytest
import torch
from eager import assert_as_eager

import antegrad

values = [0.5, 0.25, -2.0, 3.0, 1.5, 0.75]


def programs_for(function, numbers, x=None):
    """Compares each call with eager, gradients included. Returns the number of programs."""
    compiled = antegrad.compile(function)
    for number in numbers:
        argument = torch.randn(4, 3, requires_grad=True) if x is None else x.clone().requires_grad_(x.is_floating_point())
        assert_as_eager(compiled, function, (argument, number))
    report = antegrad.report(compiled)
    assert report.eager_calls == 0
    return len(report.programs)


def test_a_number_that_changes_is_an_input_from_the_second_value_on():
    assert programs_for(lambda x, t: x / t, values) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32])
@pytest.mark.parametrize("sizes", [(5,), ()])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, t: x * t,
        lambda x, t: t * x,
        lambda x, t: x + t,
        lambda x, t: t - x,
        lambda x, t: x / t,
        lambda x, t: t / x,
        lambda x, t: torch.clamp(x, max=t),
        lambda x, t: torch.where(x > t, x, -x),
        lambda x, t: x.sub(x, alpha=2) + torch.full((5,), t),
    ],
)
def test_one_program_serves_all_values(function, sizes, dtype):
    x = (torch.rand(sizes) * 5 + 1).to(dtype)
    numbers = [0.5, 0.25, 1e-9, -0.0, 3.7, -100.5]
    if dtype in (torch.float32, torch.float64):
        numbers += [math.inf, math.nan, 1e30]
    assert programs_for(function, numbers, x) == 2
    assert programs_for(function, [3, 5, 2, 7], x) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, t: torch.add(x.sin(), x, alpha=t),
        lambda x, t: torch.nn.functional.leaky_relu(x, t),
        lambda x, t: x.masked_fill(x > 0, t),
        lambda x, t: x.clamp(-t * t, t * t + 0.25),
        lambda x, t: x * (1 - t) + x.sin() * t / (t + 4),
        lambda x, t: x.clone().mul_(t).add_(x, alpha=t),
        lambda x, t: torch.addcmul(x, x, x, value=t),
        lambda x, t: torch.softmax(x / (t * t), -1).log() * 0.9,
    ],
)
def test_scalar_arguments_and_arithmetic(function):
    assert programs_for(function, values) == 2


def test_powers_of_a_step():
    assert programs_for(lambda x, step: x * 0.9 ** step, [1, 2, 3, 4, 50]) == 2
    assert programs_for(lambda x, step: x * (step / 100) + step // 3, [1, 2, 3, 4, 50]) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, t: x * math.exp(t),
        lambda x, t: x * float(t),
        lambda x, t: x * t if isinstance(t, float) else x,
        lambda x, t: x * float(f"{t:.2f}"),
        lambda x, t: x.repeat(int(t * t), 1),
        lambda x, t: x * t.is_integer(),
        lambda x, t: (x, t * 2),
        lambda x, t: x * {0.5: 1, 0.25: 2}.get(t, 3),
    ],
)
def test_a_number_that_decides_has_a_program_for_each_value(function):
    assert programs_for(function, [0.5, 0.25, -2.0, 3.0, 0.25]) == 4


def test_a_branch_has_a_program_for_each_answer():
    assert programs_for(lambda x, t: x * t if t > 0.6 else x.sin() * t, [0.1, 0.2, 0.3, 0.7, 0.8, 0.3, 0.9]) == 3


def test_sizes_stay_constants():
    assert programs_for(lambda x, n: x.repeat(n, 1), [1, 2, 3, 2]) == 3
    assert programs_for(lambda x, n: x[:, :n], [1, 2, 3, 2]) == 3


def test_numbers_in_structures():
    assert programs_for(lambda x, p: x * p[0] + p[1], [(0.1, 2), (0.2, 2), (0.3, 2), (0.3, 5), (0.4, 6), (0.5, 7)]) == 3
    assert programs_for(lambda x, p: x * p["scale"], [{"scale": v} for v in values]) == len(values)


def test_an_error_of_the_function_stays():
    def reciprocal(x, t):
        return x * (1 / t)

    compiled = antegrad.compile(reciprocal)
    x = torch.randn(3)
    for t in (0.5, 0.25):
        assert torch.equal(compiled(x, t), reciprocal(x, t))
    with pytest.raises(ZeroDivisionError):
        compiled(x, 0.0)
    assert torch.equal(compiled(x, 4.0), reciprocal(x, 4.0))


def test_the_audit_accepts_numbers():
    compiled = antegrad.compile(lambda x, t: x * t, audit="every")
    x = torch.randn(3)
    for t in values:
        assert torch.equal(compiled(x, t), x * t)
    assert antegrad.report(compiled).audits >= 4
