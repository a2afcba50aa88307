"""torch.compile(..., backend="antegrad") against eager."""

import pytest
import torch
from eager import assert_as_eager

import antegrad


def leaf(*sizes):
    return torch.randn(sizes, requires_grad=True)


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x).sigmoid() * x


def expect_as_eager(function, *args, leaves=(), graphs=1, **options):
    compiled = torch.compile(function, backend=antegrad.backend, options=options or None)
    for _ in range(3):
        assert_as_eager(compiled, function, args, leaves)
    reports = antegrad.report(compiled)
    assert len(reports) == graphs
    assert all(r.eager_calls == 0 for r in reports)
    return reports


def test_a_function():
    w = leaf(3, 4)
    expect_as_eager(lambda x: (x @ w).relu().sum(), leaf(2, 3), leaves=[w])


def test_a_model():
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
    )
    expect_as_eager(model, torch.randn(5, 6), leaves=list(model.parameters()))


def test_inference():
    model = torch.nn.Linear(3, 3)

    def function(x):
        with torch.no_grad():
            return model(x).softmax(-1)

    expect_as_eager(function, torch.randn(2, 3))


def test_a_graph_break():
    def function(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos() * 2

    expect_as_eager(function, leaf(3), graphs=2)


@pytest.mark.parametrize("times", [1, 3])
def test_an_autograd_function(times):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return 2 * gradient * x

    w = leaf(3, 3)

    def function(x):
        for _ in range(times):
            x = Square.apply(x @ w)
        return x.sin()

    expect_as_eager(function, leaf(3), leaves=[w])


def test_a_graph_break_in_a_called_function():
    def called(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    expect_as_eager(lambda x: called(x) * 2, leaf(3), graphs=3)


def test_a_graph_in_a_called_function_only():
    def called(x):
        return x.sin() * 2

    def function(x):
        for _ in (0,):  # Dynamo makes no graph of a frame that breaks in a loop
            torch._dynamo.graph_break()
            x = called(x)
        return x

    expect_as_eager(function, leaf(3))


def calls_of_each(functions):
    """Compiles each function and calls it once. Returns the number of compiled calls by graph."""
    compiled = [torch.compile(function, backend=antegrad.backend, dynamic=False) for function in functions]
    for function in compiled:
        function(leaf(2, 2))
    return [[r.compiled_calls for r in antegrad.report(function)] for function in compiled]


def test_reports_of_functions_with_the_same_code():
    def times(n):
        return lambda x: x * n

    assert calls_of_each([times(2), times(3)]) == [[1], [1]]
    torch._dynamo.reset()
    assert calls_of_each([times(2), times(2)]) == [[2], [2]]  # Dynamo has one graph for both


@pytest.mark.parametrize("kind", [lambda: torch.nn.Linear(2, 2), lambda: torch.nn.Sequential(Gated(), Gated()), Gated])
def test_reports_of_modules(kind):
    reports = calls_of_each([kind(), kind()])
    assert all(reports)


def test_other_shapes():
    def function(x):
        return (x * x.shape[0]).sum()

    compiled = torch.compile(function, backend=antegrad.backend)
    for rows in (2, 3, 4, 7):
        assert_as_eager(compiled, function, (leaf(rows, 2),))
    assert all(r.eager_calls == 0 for r in antegrad.report(compiled))


def test_training():
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    twin = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    twin.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend=antegrad.backend)
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.1) for m in (model, twin)]
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    for _ in range(5):
        losses = []
        for run, optimizer in zip((compiled, twin), optimizers):
            optimizer.zero_grad()
            loss = (run(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        assert torch.equal(*losses)


def test_options():
    with pytest.raises(Exception, match="did you mean max_programs"):
        torch.compile(lambda x: x + 1, backend=antegrad.backend, options={"max_program": 1})(leaf(2))
    with pytest.raises(TypeError, match="antegrad.compile or torch.compile"):
        antegrad.report(len)
