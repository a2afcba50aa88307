"""Hooks on saved tensors, from Python."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

import antegrad
from eager import same


def chain(x, y):
    z = (x * y).sin()
    z = z.exp() * z
    return (z.tanh() @ y.t()).square().sum()


def gradients(function, x, y):
    return torch.autograd.grad(function(x, y), [x, y])


@pytest.fixture
def arguments():
    torch.manual_seed(0)
    return torch.randn(6, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)


def copy(x):
    return x.clone()


def to_bf16(x):
    return x.bfloat16(), x.dtype


def from_bf16(packed):
    return packed[0].to(packed[1])


@pytest.mark.parametrize("mode", ["donated", "no_static", "all"])
def test_hooks_become_part_of_the_program(arguments, mode):
    step = antegrad.compile(chain, saved_tensors_hooks_filtering_mode=mode)
    with antegrad.saved_tensors_hooks(copy, copy):
        for wanted, found in zip(gradients(chain, *arguments), gradients(step, *arguments)):
            assert same(wanted, found)
    program = step.report().programs[0]
    assert (program.hooks, step.report().eager_calls) == ("copy", 0)
    assert len(program.hooked) >= 2


def test_what_comes_back_is_what_the_backward_reads():
    x = torch.randn(64, requires_grad=True)
    for inlineable in [True, False]:
        step = antegrad.compile(lambda x: x.exp().sum())
        with antegrad.saved_tensors_hooks(to_bf16, from_bf16, inlineable=inlineable):
            (gradient,) = torch.autograd.grad(step(x), x)
        assert same(gradient, x.detach().exp().bfloat16().float())


def test_graph_modules_are_inlined_as_in_the_reference(arguments):
    pack = torch.fx.symbolic_trace(lambda x: x.to(torch.bfloat16))
    unpack = torch.fx.symbolic_trace(lambda x: x.to(torch.float32))
    step = antegrad.compile(chain)
    with saved_tensors_hooks(pack, unpack):
        gradients(step, *arguments)
        gradients(step, *arguments)
    assert len(step.report().programs) == 1
    assert all("as bf16" in line for line in step.report().programs[0].hooked)


def test_other_hooks_run_eagerly_once_for_each_tensor(arguments):
    step = antegrad.compile(chain)
    packed, unpacked = [], []

    def pack(x):
        packed.append(x)
        return {"object": object(), "tensor": x}

    def unpack(kept):
        unpacked.append(kept)
        return kept["tensor"]

    with saved_tensors_hooks(pack, unpack):
        loss = step(*arguments)
    assert len(packed) >= 4 and not unpacked
    for _ in range(2):
        found = torch.autograd.grad(loss, arguments, retain_graph=True)
        for wanted, gradient in zip(gradients(chain, *arguments), found):
            assert same(wanted, gradient)
    assert len(unpacked) == 2 * len(packed)
    assert step.report().programs[0].hooks == ""


def test_hooks_are_told_apart(arguments):
    step = antegrad.compile(chain)

    def programs(*hooks, **options):
        with antegrad.saved_tensors_hooks(*hooks, **options):
            gradients(step, *arguments)
        return len(step.report().programs)

    gradients(step, *arguments)
    assert programs(copy, copy) == 2
    assert programs(to_bf16, from_bf16) == 3
    assert programs(copy, copy) == 3
    assert programs(lambda x: x * 2, lambda x: x / 2, cache_hash="two") == 4
    assert programs(lambda x: x * 2, lambda x: x / 2, cache_hash="two") == 4
    assert "hooks" in step.report().recompiles[0]


def test_errors_are_typed_and_lose_nothing(arguments):
    def wrong(_):
        raise KeyError("wrong")

    for inlineable in [True, False]:
        step = antegrad.compile(chain)
        with antegrad.saved_tensors_hooks(wrong, copy, inlineable=inlineable), pytest.raises(KeyError):
            step(*arguments)
        with antegrad.saved_tensors_hooks(copy, lambda x: x.flatten(), inlineable=inlineable):
            with pytest.raises(antegrad.HookError, match="sizes"):
                gradients(step, *arguments)
        for wanted, found in zip(gradients(chain, *arguments), gradients(step, *arguments)):
            assert same(wanted, found)


def test_torch_compile_takes_hooks(arguments):
    step = torch.compile(chain, backend=antegrad.backend)
    with antegrad.saved_tensors_hooks(copy, copy):
        for wanted, found in zip(gradients(chain, *arguments), gradients(step, *arguments)):
            assert same(wanted, found)


def test_the_scope_works_in_eager_code_too(arguments):
    calls = []

    def pack(x):
        calls.append(x)
        return x

    with antegrad.saved_tensors_hooks(pack, lambda x: x):
        gradients(chain, *arguments)
    assert calls


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "int8_rowwise", "bf16"])
def test_compressors_are_those_of_cpp(name):
    hooks = getattr(antegrad.compress, name)
    x = torch.randn(64, 64, requires_grad=True)
    step = antegrad.compile(lambda x: x.exp().sum())
    found = []
    for function in [step, lambda x: x.exp().sum()]:
        with hooks():
            found.append(torch.autograd.grad(function(x), x)[0])
    assert same(*found)
    assert not same(found[0], x.detach().exp())
    program = step.report().programs[0]
    assert (program.hooks, step.report().eager_calls) == (name, 0)


@pytest.fixture
def directory(tmp_path):
    yield tmp_path
    assert not list(tmp_path.iterdir())  # files have no name
    assert antegrad.compress.offloaded_bytes() == 0


def test_offload_keeps_bits_in_compiled_and_in_eager_code(arguments, directory):
    step = antegrad.compile(chain)
    wanted = gradients(chain, *arguments)
    for function in [step, step, chain]:
        with antegrad.compress.offload_to_host(min_bytes=1, directory=directory):
            loss = function(*arguments)
        assert antegrad.compress.offloaded_bytes() > 0
        for gradient, found in zip(wanted, torch.autograd.grad(loss, arguments)):
            assert same(gradient, found)
        del loss
        assert antegrad.compress.offloaded_bytes() == 0
    program = step.report().programs[0]
    assert (program.hooks, len(step.report().programs)) == ("offload_to_host", 1)


def test_offload_says_what_is_wrong(arguments, directory):
    with pytest.raises(antegrad.OptionError, match="min_bytes"):
        antegrad.compress.offload_to_host(min_bytes=-1)
    for function in [antegrad.compile(chain), chain]:
        with antegrad.compress.offload_to_host(min_bytes=1, directory=directory / "missing"):
            with pytest.raises(antegrad.HookError, match="missing"):
                function(*arguments)
        with antegrad.compress.offload_to_host(min_bytes=1, max_bytes=100, directory=directory):
            with pytest.raises(antegrad.HookError, match="max_bytes"):
                function(*arguments)
