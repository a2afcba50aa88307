"""Memory that programs keep between calls, seen from Python (docs/memory.md)."""

import pytest
import torch

import antegrad

MIB = 2**20


def chain(x):
    for _ in range(20):
        x = x.sin()
    return x


@pytest.mark.parametrize("kept", ["keep", "free"])
def test_a_step_keeps_memory_until_it_is_released(kept):
    antegrad.release_kept_memory()
    before = antegrad.kept_memory()
    x = torch.randn(512, 512, requires_grad=True)
    step = antegrad.compile(chain, kept_memory=kept)
    y = step(x)
    used = antegrad.kept_memory().used_bytes - before.used_bytes
    y.sum().backward()
    assert torch.equal(x.grad, torch.autograd.grad(chain(x).sum(), x)[0])
    rest = antegrad.kept_memory().kept_bytes - before.kept_bytes
    if kept == "free":
        assert used == 0 and rest <= 0
        return
    assert used >= 20 * MIB and rest >= 20 * MIB
    antegrad.release_kept_memory()
    assert antegrad.kept_memory().kept_bytes - before.kept_bytes <= 6 * MIB
    assert torch.equal(y, chain(x))


def test_whole_steps_are_planned_by_the_price_of_memory():
    layers = [torch.nn.Linear(64, 64) for _ in range(4)]
    model = torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.GELU())])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4096, 64)
    saved = {}
    for partition in (None, "as_written", "priced"):
        chosen = {} if partition is None else {"partition": partition}
        step = antegrad.compile_step(model, optimizer, lambda x: model(x).square().mean(), **chosen)
        step(x)
        saved[partition] = step.report().programs[0].saved_bytes
    assert saved[None] == saved["priced"] < saved["as_written"]
