"""The mode names of torch.compile."""

import pytest
import torch

import antegrad


def loss(x):
    return x.exp().sin().sum()


def through_dynamo(mode):
    compiled = torch.compile(loss, backend=antegrad.backend, mode=mode)
    return lambda x: compiled(x), lambda: antegrad.report(compiled)


def directly(mode):
    compiled = antegrad.compile(loss, mode=mode)
    return compiled, compiled.report


@pytest.mark.parametrize("compiled_by", [through_dynamo, directly])
@pytest.mark.parametrize("mode", [None, "default", "max-autotune-no-cudagraphs"])
def test_modes_compile(compiled_by, mode):
    step, report = compiled_by(mode)
    x = torch.randn(4, requires_grad=True)
    step(x).backward()
    found, x.grad = x.grad, None
    loss(x).backward()
    assert torch.equal(found, x.grad)
    assert "1 compiled" in str(report()) or report()


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_cuda_graphs_are_refused_by_name(mode):
    words = f"expected one of 'default', 'max-autotune-no-cudagraphs' as mode; found '{mode}', which records CUDA graphs"
    with pytest.raises(antegrad.OptionError, match=words):
        antegrad.compile(loss, mode=mode)
    with pytest.raises(Exception, match=words):
        torch.compile(loss, backend=antegrad.backend, mode=mode)(torch.randn(4))


def test_unknown_modes_are_refused():
    with pytest.raises(antegrad.OptionError, match="found 'fastest'$"):
        antegrad.compile(loss, mode="fastest")


def test_an_autotuned_mode_searches_longer_and_measures():
    from antegrad._modes import options_of_mode

    assert options_of_mode("max-autotune-no-cudagraphs") == {"budget_effort": "thorough", "budget_profile": "measured"}


def test_options_override_the_mode(tmp_path):
    step = antegrad.compile(loss, mode="max-autotune-no-cudagraphs", memory_share=0.5, budget_effort="quick",
                            budget_profile="off")
    step(torch.randn(64, requires_grad=True)).backward()
    step.save_graph(tmp_path / "step.agraph")
    record = (tmp_path / "step.agraph").read_text()
    assert '"quick"' in record and '"thorough"' not in record


def test_a_decorator_takes_a_mode():
    @antegrad.compile(mode="default", name="mine")
    def step(x):
        return x.sin()

    assert step.report().name == "mine"
