"""Checkpoints in compiled functions: the same bits, and values internal to a block are not saved."""

import functools

import antegrad
import pytest
import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

ADDMM = torch.ops.aten.addmm.default


def save_products(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op is ADDMM else CheckpointPolicy.MUST_RECOMPUTE


def block(layer, x):
    return torch.dropout(torch.nn.functional.gelu(layer(x)), 0.3, True)


def by_torch(x, layer, policy):
    more = {} if policy is None else {"context_fn": functools.partial(create_selective_checkpoint_contexts, policy)}
    return checkpoint(block, layer, x, use_reentrant=False, **more)


def by_antegrad(x, layer, policy):
    return antegrad.checkpoint(block, layer, x, policy=policy)


def plainly(x, layer, policy):
    return block(layer, x)


class Model:
    """A loss of four blocks, each called through `call`."""

    def __init__(self, call, policy=None):
        torch.manual_seed(3)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))
        self.x = torch.randn(256, 64, requires_grad=True)
        self.call, self.policy = call, policy

    def loss(self, x):
        for layer in self.layers:
            x = self.call(x, layer, self.policy)
        return x.sum()

    def step(self, loss):
        for tensor in (self.x, *self.layers.parameters()):
            tensor.grad = None
        torch.manual_seed(5)
        value = loss(self.x)
        value.backward()
        return [value.detach(), *(p.grad for p in self.layers.parameters()), self.x.grad, torch.get_rng_state()]


def expect_as_plain(model, loss):
    plain = Model(plainly)
    expected = plain.step(plain.loss)
    for _ in range(3):
        for a, b in zip(expected, model.step(loss), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("call", [by_torch, by_antegrad])
@pytest.mark.parametrize("through", ["dynamo", "compile"])
@pytest.mark.parametrize("policy", [None, save_products])
def test_blocks_run_again_to_the_bit(call, through, policy):
    if call is by_torch and through == "compile":
        pytest.skip("torch.utils.checkpoint works by hooks on saved tensors, which a capture does not see")
    torch._dynamo.reset()
    model = Model(call, policy)
    if through == "compile":
        loss = antegrad.compile(model.loss)
    else:
        loss = torch.compile(model.loss, backend=antegrad.backend)
    expect_as_plain(model, loss)
    report = antegrad.report(loss)
    (report,) = report if isinstance(report, list) else [report]
    assert report.eager_calls == 0
    again = report.programs[0].recomputed
    assert again["antegrad::draw_bools.default"] == 4
    assert again.get("aten::addmm.default", 0) == (4 if policy is None else 0)


@pytest.mark.parametrize("policy", [None, save_products, [ADDMM]])
def test_in_eager_code_it_is_that_of_torch(policy):
    model = Model(by_antegrad, policy)
    expect_as_plain(model, model.loss)


def test_a_list_names_what_is_saved():
    model = Model(by_antegrad, [ADDMM])
    loss = antegrad.compile(model.loss, partition="min_cut")
    expect_as_plain(model, loss)
    assert "aten::addmm.default" not in loss.report().programs[0].recomputed


def test_a_policy_that_says_something_else_is_an_error():
    model = Model(by_antegrad, lambda ctx, op: CheckpointPolicy)
    with pytest.raises(AttributeError):
        antegrad.compile(model.loss)(model.x)


def test_rules_of_the_partition_are_options():
    model = Model(plainly)
    rules = dict(aggressive_recomputation=True, ban_recompute_random=False, ban_recompute_compute_intensive=False,
                 max_dist_from_bw=1000, ban_recompute_reductions=False)
    loss = antegrad.compile(model.loss, partition="min_cut", **rules)
    expect_as_plain(model, loss)
    assert loss.report().programs[0].recomputed["antegrad::draw_bools.default"] == 4
    for name, value in [("partition", "cut"), ("ban_recompute_random", 3), ("max_dist_from_bw", -1)]:
        with pytest.raises(antegrad.OptionError, match=name):
            antegrad.compile(model.loss, **{name: value})
