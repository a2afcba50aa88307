"""Backward passes of Python as programs: gradients, hooks and errors as with libtorch's engine."""

import threading

import antegrad
import pytest
import torch
import torch.nn.functional as F
from torch.autograd.variable import Variable
from torch.utils.checkpoint import checkpoint


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(32, 24)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(24, 24) for _ in range(3))
        self.norm = torch.nn.LayerNorm(24)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + F.gelu(layer(self.norm(x)))
        return F.cross_entropy(x.flatten(0, -2), tokens.flatten() % 24)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model()


@pytest.fixture
def tokens():
    torch.manual_seed(1)
    return torch.randint(32, (4, 16))


def gradients_of(model):
    found = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return found


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


def run(model, body, times=2):
    """What body(model) leaves in gradients and returns, in eager and in a scope; and the scope's report."""
    expected = body(model), gradients_of(model)
    with antegrad.compiled_backward(lowering="exact", keep_slow_kernels=True) as scope:
        for _ in range(times):
            found = body(model), gradients_of(model)
            assert found[0] == expected[0]
            assert_same(found[1], expected[1])
    return scope.report()


def test_a_step_is_a_program(model, tokens):
    before = Variable._execution_engine
    report = run(model, lambda m: m(tokens).backward(), times=3)
    assert Variable._execution_engine is before
    assert (report.passes, report.graphs) == (3, 1)
    assert report.nodes_compiled > report.nodes / 2
    assert not report.eager_reasons and not report.left_to_libtorch
    assert set(report.own_nodes) == {"torch::autograd::AccumulateGrad"}
    assert "passes of 1 graphs" in str(report)


def test_hooks_run_in_their_order(model, tokens):
    def body(m):
        notes = []
        hooks = [m.layers[0].weight.register_hook(lambda g: (notes.append("leaf"), g * 2)[1]),
                 m.layers[1].weight.register_post_accumulate_grad_hook(lambda p: notes.append(f"accumulated {p.grad.sum().item()}")),
                 m.layers[2].register_full_backward_hook(lambda *_: notes.append("module"))]
        loss = m(tokens)
        loss.grad_fn.register_hook(lambda *_: notes.append("node"))
        loss.backward()
        for hook in hooks:
            hook.remove()
        return notes

    report = run(model, body)
    assert report.graphs == 1


def test_custom_functions_checkpoints_and_inner_passes(model, tokens):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                (inner,) = torch.autograd.grad(y.sin().sum(), y)
            return g * inner

    def body(m):
        x = m.embedding(tokens)
        x = checkpoint(m.layers[0], x, use_reentrant=False)
        x = checkpoint(m.layers[1], x, use_reentrant=True)
        Scaled.apply(x).square().sum().backward()

    report = run(model, body)
    assert any("Scaled" in name for name in report.own_nodes)


def test_gradients_that_are_asked_for(model, tokens):
    weights = [layer.weight for layer in model.layers]

    def body(m):
        loss = m(tokens)
        kept = torch.autograd.grad(loss, weights, retain_graph=True)
        loss.backward(inputs=weights[:2])
        unused = torch.autograd.grad(m.layers[0].weight.sum(), [m.layers[0].weight, m.layers[1].weight], allow_unused=True)
        return [[g.tolist() for g in kept], unused[0].tolist(), unused[1]]

    run(model, body)
    with antegrad.compiled_backward(), pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(weights[0].sum(), [weights[1]])


def test_errors_are_those_of_libtorch(model, tokens):
    class Broken(Exception):
        pass

    def broken(_):
        raise Broken("in a hook")

    with antegrad.compiled_backward():
        loss = model(tokens)
        loss.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()
        with pytest.raises(RuntimeError, match="does not require grad"):
            torch.ones(3).sum().backward()
        with pytest.raises(RuntimeError, match="scalar outputs"):
            model.layers[0](torch.ones(24)).backward()
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.register_hook(broken)
        with pytest.raises(Broken, match="in a hook"):
            (y * 2).sum().backward()
        z = x.exp()
        w = z * z
        with torch.no_grad():
            z.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            w.sum().backward()


def test_what_is_left_to_libtorch():
    x = torch.ones(3, requires_grad=True)
    with antegrad.compiled_backward() as scope:
        (g,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
        g.sum().backward()
        with torch.autograd.detect_anomaly(check_nan=False):
            x.sin().sum().backward()
        torch.func.grad(lambda v: v.sin().sum())(torch.ones(3))
    assert torch.equal(x.grad, torch.ones(3).exp() + torch.ones(3).cos())
    report = scope.report()
    assert report.left_to_libtorch["create_graph"] == 2  # functorch asks for one, too
    assert report.left_to_libtorch["anomaly mode"] == 1
    assert report.passes == 1


def test_scopes_nest_and_can_be_left_by_a_thread():
    x = torch.ones(3, requires_grad=True)
    with antegrad.compiled_backward() as outer:
        with antegrad.compiled_backward(lowering="off") as inner:
            x.exp().sum().backward()
        with antegrad.eager_backward():
            x.exp().sum().backward()
        x.exp().sum().backward()
    assert inner.report().passes == 1
    assert outer.report().passes == 1
    with pytest.raises(antegrad.OptionError):
        antegrad.compiled_backward(lowering="sometimes").__enter__()
    with pytest.raises(RuntimeError, match="not entered|was not"):
        antegrad.compiled_backward().report()
    assert not hasattr(Variable._execution_engine, "_libtorch")


def test_compiled_regions_and_a_factor_that_changes(model, tokens):
    region = antegrad.compile(lambda x, w: F.gelu(x @ w).sin(), lowering="exact")

    def body(m, factor=1.0):
        x = m.embedding(tokens)
        h = region(x, m.layers[0].weight)
        torch.add(h.square(), h, alpha=factor).sum().backward()

    report = run(model, body)
    assert report.regions == {"AntegradBackward:<lambda>": report.passes}
    assert set(report.own_nodes) == {"torch::autograd::AccumulateGrad"}
    expected = []
    for i in range(20):
        body(model, 1 + i / 3)
        expected.append(gradients_of(model))
    with antegrad.compiled_backward() as scope:
        for i in range(20):
            body(model, 1 + i / 3)
            assert_same(gradients_of(model), expected[i])
    assert scope.report().graphs == 2  # with the first factor, and with any


def test_optimizers_and_threads(model, tokens):
    def trained(steps=5):
        torch.manual_seed(0)
        m = Model()
        optimizer = torch.optim.AdamW(m.parameters(), lr=1e-2)
        for _ in range(steps):
            optimizer.zero_grad()
            m(tokens).backward()
            optimizer.step()
        return [p.detach().clone() for p in m.parameters()]

    expected = trained()
    found = [None] * 4
    with antegrad.compiled_backward(lowering="exact") as scope:
        assert_same(trained(), expected)

        def work(i):
            m, loss_of = Model(), lambda model: model(tokens)
            m.load_state_dict(model.state_dict())
            for _ in range(5):
                m.zero_grad()
                loss_of(m).backward()
            found[i] = gradients_of(m)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    model(tokens).backward()
    expected = gradients_of(model)
    for gradients in found:
        assert_same(gradients, expected)
    assert scope.report().passes == 25
