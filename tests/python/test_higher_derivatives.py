"""create_graph through compiled functions and modules, against eager."""

import copy

import pytest
import torch

import antegrad


def critic():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))


def penalty(call, x):
    score = call(x)
    (slope,) = torch.autograd.grad(score, x, torch.ones_like(score), create_graph=True)
    return score.square().mean() + (slope.norm(2, 1) - 1).square().mean()


def train(model, call, steps=4):
    torch.manual_seed(5)
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = penalty(call, torch.randn(32, 8, requires_grad=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses + [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("compiler", ["antegrad", "dynamo"])
def test_a_gradient_penalty_trains_as_in_eager(compiler):
    model = critic()
    other = copy.deepcopy(model)
    expected = train(model, model)
    if compiler == "antegrad":
        call = antegrad.compile(other, higher_derivatives=True)
    else:
        call = torch.compile(other, backend=antegrad.backend, options={"higher_derivatives": True})
    found = train(other, call)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    if compiler == "antegrad":
        report = call.report()
        assert report.eager_calls == 0
        assert [program.derivative for program in report.programs] == [0, 1]
        assert "order 1" in str(report)


def test_a_hessian_by_rows():
    f = antegrad.compile(lambda x: (x.sin() * x.roll(1)).sum(), higher_derivatives=True)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    expected = torch.autograd.functional.hessian(lambda x: (x.sin() * x.roll(1)).sum(), x)
    assert torch.equal(torch.autograd.functional.hessian(f, x), expected)
    torch.autograd.gradgradcheck(f, (x,))


def test_custom_functions_differentiate_their_own_backward():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone() ** 3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    def f(x):
        return Cube.apply(x.sin())

    def second(f):
        x = torch.linspace(-1, 1, 7, requires_grad=True)
        (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)[0]

    assert torch.equal(second(antegrad.compile(f, higher_derivatives=True)), second(f))
