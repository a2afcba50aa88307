"""Hooks on tensors that a compiled function computes, with code that each call brings along."""

import gc
import warnings
import weakref

import antegrad
import pytest
import torch
from torch._dynamo import compiled_autograd


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 6)
        self.second = torch.nn.Linear(6, 6)

    def forward(self, x, state):
        h = torch.tanh(self.first(x))
        state.register_hook(h, "h")
        return self.second(h).square().mean()


def gradients_of(net):
    found = [parameter.grad for parameter in net.parameters()]
    net.zero_grad(set_to_none=True)
    return found


def run(net, step, x, factor, passes=1):
    seen = []
    state = antegrad.BackwardState()
    loss = step(x, state)

    def hook(gradient):
        seen.append(gradient)
        return gradient * factor

    state.set("h", hook)
    for i in range(passes):
        loss.backward(retain_graph=i + 1 < passes)
    return seen, gradients_of(net)


def expect_equal(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert torch.equal(a, b)


def test_hooks_see_the_state_of_their_call():
    net = Net()
    step = antegrad.compile(net, lowering="exact")
    for i in range(5):
        x = torch.randn(3, 6)
        expected, found = run(net, net, x, i, 1 + i % 2), run(net, step, x, i, 1 + i % 2)
        expect_equal(found[0], expected[0])
        expect_equal(found[1], expected[1])
    report = step.report()
    assert report.eager_calls == 0
    assert len(report.programs) == 1


def test_hooks_that_only_look_and_objects_that_go():
    class Counter:
        calls = 0

        def __call__(self, gradient):
            self.calls += 1

    net = Net()
    step = antegrad.compile(net)
    counter = Counter()
    state = antegrad.BackwardState()
    loss = step(torch.randn(3, 6), state)
    state.set("h", counter)
    del state
    loss.backward()
    assert counter.calls == 1
    reference = weakref.ref(counter)
    del counter, loss
    gc.collect()
    assert reference() is None


def test_errors():
    net = Net()
    step = antegrad.compile(net)
    x = torch.randn(3, 6)
    state = antegrad.BackwardState()
    loss = step(x, state)
    with pytest.raises(antegrad.BackwardError, match='hook "h"'):
        loss.backward(retain_graph=True)
    state.set("h", lambda gradient: 3)
    with pytest.raises(antegrad.BackwardError, match="int"):
        loss.backward(retain_graph=True)
    state.set("h", lambda gradient: 1 / 0)
    with pytest.raises(ZeroDivisionError), warnings.catch_warnings():
        warnings.simplefilter("error")
        loss.backward(retain_graph=True)
    assert all(parameter.grad is None for parameter in net.parameters())
    state.set("h", lambda gradient: None)
    loss.backward()
    with pytest.raises(antegrad.CaptureError, match="outside"):
        antegrad.compile(lambda x: antegrad.BackwardState())(x)


@pytest.fixture
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_hooks_that_dynamo_hands_over(fresh_dynamo):
    weight = torch.randn(6, 6, requires_grad=True)

    def loss_of(x, note):
        h = torch.tanh(x @ weight)

        def hook(gradient):
            note.append(gradient.sum())
            return gradient * 2

        h.register_hook(hook)
        return (h * h).sum()

    def run(step, x):
        note = []
        step(x, note).backward()
        found, weight.grad = weight.grad, None
        return note, [found]

    step = torch.compile(loss_of, backend=antegrad.backend, fullgraph=True)
    inputs = [torch.randn(4, 6) for _ in range(4)]
    expected = [run(loss_of, x) for x in inputs]
    with antegrad.compiled_backward(lowering="exact", dynamo_hooks=True) as scope:
        found = [run(step, x) for x in inputs[:2]]
    assert not scope.report().eager_reasons
    assert scope.report().regions
    found += [run(step, x) for x in inputs[2:]]
    for a, b in zip(found, expected):
        expect_equal(a[0], b[0])
        expect_equal(a[1], b[1])
    (function,) = antegrad._dynamo.functions_of(step)
    assert function.report().eager_calls == 0
    assert not compiled_autograd.compiled_autograd_enabled


def test_hooks_on_modules_that_dynamo_hands_over(fresh_dynamo):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    notes = []
    net[1].register_full_backward_pre_hook(lambda module, outputs: (notes.append(("before", outputs[0].sum())), (outputs[0] * 3,))[1])
    net[1].register_full_backward_hook(lambda module, inputs, outputs: (notes.append(("after", inputs[0].sum(), outputs[0].sum())), (inputs[0] * 2,))[1])

    def run(step, x):
        notes.clear()
        step(x).sum().backward()
        return list(notes), gradients_of(net)

    step = torch.compile(net, backend=antegrad.backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(4, 6)
        expected = run(net, x)
        with antegrad.compiled_backward(dynamo_hooks=True):
            found = run(step, x)
        assert [note[0] for note in found[0]] == ["before", "after"]
        for a, b in zip(found[0], expected[0]):
            expect_equal(a[1:], b[1:])
        expect_equal(found[1], expected[1])
