"""Hooks on saved tensors, from Python."""

import concurrent.futures
import contextlib

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.testing._internal.two_tensor import TwoTensor

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


# ---- functions of torch.fx.wrap, which hooks call by name




def pack_by_size(x):
    """Branches on dtype and size run when the hook is captured."""
    if x.dtype != torch.float32 or x.numel() <= 8:
        return x, None, x.dtype
    scale = x.abs().amax() / 127
    return (x / scale).round().to(torch.int8), scale, x.dtype


def unpack_by_size(packed):
    x, scale, dtype = packed
    return x if scale is None else x.to(dtype) * scale


torch.fx.wrap("pack_by_size")
torch.fx.wrap("unpack_by_size")


def wrapped_hooks(user_hash=None):
    modules = [
        torch.fx.symbolic_trace(lambda x: pack_by_size(x)),
        torch.fx.symbolic_trace(lambda packed: unpack_by_size(packed)),
    ]
    for module in modules:
        for node in module.graph.nodes:
            if user_hash is not None and node.meta.get("is_wrapped"):
                node.meta["user_cache_hash"] = user_hash
    return modules


def under(hooks, function, *args):
    """The gradients of the function in eager code under libtorch's own hooks."""
    with saved_tensors_hooks(*hooks):
        return gradients(function, *args)


def two_sizes(x, y):
    """Saves one tensor of each size."""
    return x.exp().sum() + y.exp().sum()


@pytest.mark.parametrize("user_hash", [None, "v1"])
def test_wrapped_functions_decide_when_they_are_captured(user_hash):
    x, y = torch.randn(64, requires_grad=True), torch.randn(8, requires_grad=True)
    hooks = wrapped_hooks(user_hash)
    step = antegrad.compile(two_sizes)
    wanted = under((pack_by_size, unpack_by_size), two_sizes, x, y)
    for _ in range(2):
        with saved_tensors_hooks(*hooks):
            found = gradients(step, x, y)
        assert all(same(a, b) for a, b in zip(wanted, found))
    report = step.report()
    assert (len(report.programs), report.eager_calls) == (1, 0)
    (hooked,) = report.programs[0].hooked
    assert "as i8[64], f32[]" in hooked


def test_the_report_says_what_stands_against_a_cache(arguments):
    def report(hooks, **options):
        step = antegrad.compile(chain)
        scope = antegrad.saved_tensors_hooks(*hooks, **options) if options else saved_tensors_hooks(*hooks)
        with scope:
            gradients(step, *arguments)
        return step.report().programs[0]

    assert report(wrapped_hooks("v1")).cache_bypass == []
    hashes = report(wrapped_hooks("v1")).cache_hashes
    assert [line.rsplit(": ", 1)[1] for line in hashes].count("v1") == 2
    assert hashes == report(wrapped_hooks("v1")).cache_hashes
    assert hashes != report(wrapped_hooks("v2")).cache_hashes
    unknown = report(wrapped_hooks()).cache_bypass
    assert len(unknown) == 2 and all("user_cache_hash" in line for line in unknown)
    assert "pack_by_size" in unknown[0] and "unpack_by_size" in unknown[1]

    plain = [torch.fx.symbolic_trace(lambda x: x.clone()) for _ in range(2)]
    assert report(plain).cache_bypass == [] and len(report(plain).cache_hashes) == 2
    other = report([torch.fx.symbolic_trace(lambda x: x + 0), plain[1]])
    assert other.cache_bypass == [] and other.cache_hashes != report(plain).cache_hashes

    functions = report((copy, copy), inlineable=True)
    assert len(functions.cache_bypass) == 2 and functions.cache_hashes == []
    named = report((copy, copy), cache_hash="copies")
    assert (named.cache_bypass, named.cache_hashes) == ([], ["hooks 'copy': copies"])
    assert report(wrapped_hooks(), cache_hash="all of it").cache_bypass == []


# ---- what hooks must not return


class Holder(torch.Tensor):
    """A tensor subclass written in Python."""


def two(x):
    return TwoTensor(x.clone(), x.clone())


WRONG_PACKS = {
    "a wrapper subclass": two,
    "a list with a wrapper subclass": lambda x: [x, two(x)],
    "a subclass": lambda x: x.clone().as_subclass(Holder),
    "a sparse tensor": lambda x: x.to_sparse(),
    "a sparse row-compressed tensor": lambda x: x.to_sparse_csr() if x.dim() == 2 else x.to_sparse(),
    "a quantised tensor": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    "a nested tensor": lambda x: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "an object": lambda x: {"object": object(), "tensor": x},
}

WRONG_UNPACKS = {
    "another size": lambda x: x.flatten()[1:],
    "another dtype": lambda x: x.double(),
    "another device": lambda x: torch.empty_like(x, device="meta"),
    "nothing": lambda x: None,
    "a number": lambda x: 3,
    "a tuple": lambda x: (x, x),
    "a sparse tensor": lambda x: x.to_sparse(),
    "a wrapper subclass": two,
    "a nested tensor": lambda x: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}


def stateful():
    """A function that draws and writes to an argument and a buffer, and the tensors that it writes."""
    torch.manual_seed(3)
    buffer, written = torch.zeros(4), torch.randn(6, 4)

    def function(x, y):
        buffer.add_(1)
        written.mul_(2)
        return torch.nn.functional.dropout(chain(x, y * buffer) * written.sum(), 0.5)

    return function, [buffer, written]


def assert_refused(arguments, pack, unpack, at_backward):
    """Expects that the hooks are refused by a typed error, and that a call without them still equals eager."""
    expected, expected_state = stateful()
    function, state = stateful()
    step = antegrad.compile(function)
    before, generator = [t.clone() for t in state], torch.get_rng_state()
    with antegrad.saved_tensors_hooks(pack, unpack, inlineable=not at_backward, name="wrong"):
        if at_backward:
            loss = step(*arguments)
            expected(*arguments)
            torch.set_rng_state(generator)
        with pytest.raises(antegrad.HookError):
            loss.backward() if at_backward else step(*arguments)
    assert all(x.grad is None for x in arguments)
    if not at_backward:
        assert torch.equal(torch.get_rng_state(), generator)
        assert all(same(a, b) for a, b in zip(before, state))
    found = gradients(step, *arguments)
    torch.set_rng_state(generator)
    for wanted, gradient in zip(gradients(expected, *arguments), found):
        assert same(wanted, gradient)
    assert all(same(a, b) for a, b in zip(expected_state, state))
    assert step.report().eager_calls == 0


@pytest.mark.parametrize("wrong", WRONG_PACKS)
def test_packed_tensors_that_are_not_plain_are_refused(arguments, wrong):
    assert_refused(arguments, WRONG_PACKS[wrong], copy, at_backward=False)


@pytest.mark.parametrize("wrong", WRONG_UNPACKS)
@pytest.mark.parametrize("at_backward", [False, True])
def test_what_does_not_come_back_as_it_was_is_refused(arguments, wrong, at_backward):
    assert_refused(arguments, copy, WRONG_UNPACKS[wrong], at_backward)


def test_eager_hooks_pack_anything(arguments):
    pairs = [
        (two, lambda packed: packed.a),
        (lambda x: x.to_sparse(), lambda packed: packed.to_dense()),
        (lambda x: torch.nested.nested_tensor([x]), lambda packed: packed.unbind()[0]),
    ]
    for pack, unpack in pairs:
        step = antegrad.compile(chain)
        with saved_tensors_hooks(pack, unpack):
            found = gradients(step, *arguments)
        for wanted, gradient in zip(gradients(chain, *arguments), found):
            assert same(wanted, gradient)


# ---- eager code under the same hooks is the oracle, also for lossy hooks


def to_int8(x):
    scale = x.abs().amax(-1, keepdim=True) / 127 if x.dim() else x.abs() / 127
    return (x / scale).round().to(torch.int8), scale, x.dtype


def from_int8(packed):
    x, scale, dtype = packed
    return x.to(dtype) * scale


LOSSY = {"bf16": (to_bf16, from_bf16), "int8": (to_int8, from_int8)}


class SavesItsArgument(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, tangent):
        (saved,) = ctx.saved_tensors
        return tangent + saved


class SavesTwo(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.columns = x.size(1)
        return x * y

    @staticmethod
    def backward(ctx, tangent):
        x, y = ctx.saved_tensors
        return tangent * y + ctx.columns, tangent * x


def of_a_function(x, y):
    return SavesItsArgument.apply(x + 1).sum() + SavesTwo.apply(x * 2, y + 1).sum()


def of_one_storage(x, y):
    a, b = (x + y).exp().chunk(2, 1)
    return (a * b).sin().sum()


def of_a_written_argument(x, y):
    z = x.detach().clone()
    before = y * z.clone()
    z.add_(1)
    return (before + y * z).sum() + x.sum()


@pytest.mark.parametrize("hooks", LOSSY)
@pytest.mark.parametrize("inlineable", [True, False])
@pytest.mark.parametrize("function", [of_a_function, two_sizes, of_a_written_argument])
def test_what_hooks_lose_is_lost_as_in_eager_code(arguments, function, hooks, inlineable):
    """Functions for which eager saves the same tensors."""
    wanted = under(LOSSY[hooks], function, *arguments)
    exact = gradients(function, *arguments)
    step = antegrad.compile(function, saved_tensors_hooks_filtering_mode="all")
    with antegrad.saved_tensors_hooks(*LOSSY[hooks], inlineable=inlineable):
        found = gradients(step, *arguments)
    assert all(same(a, b) for a, b in zip(wanted, found))
    assert any(not same(a, b) for a, b in zip(exact, found))
    assert step.report().eager_calls == 0


@pytest.mark.parametrize("function", [chain, of_a_function, two_sizes, of_one_storage, of_a_written_argument])
@pytest.mark.parametrize("mode", ["donated", "no_static", "all"])
def test_scenarios_keep_their_bits_under_hooks_that_do(arguments, function, mode):
    pairs = [
        (copy, copy),
        (lambda x: (x.reshape(-1).view(torch.uint8), x.dtype, x.shape), lambda p: p[0].view(p[1]).view(p[2])),
    ]
    for pack, unpack in pairs:
        step = antegrad.compile(function, saved_tensors_hooks_filtering_mode=mode)
        with antegrad.saved_tensors_hooks(pack, unpack):
            found = gradients(step, *arguments)
        for wanted, gradient in zip(gradients(function, *arguments), found):
            assert same(wanted, gradient)
        assert step.report().eager_calls == 0


def test_buffers_of_a_module_move_as_in_eager():
    def train(compiled):
        torch.manual_seed(2)
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(), torch.nn.Dropout(0.3))
        step = antegrad.compile(model, saved_tensors_hooks_filtering_mode="all") if compiled else model
        for _ in range(3):
            x = torch.randn(8, 4)
            with antegrad.saved_tensors_hooks(copy, copy):
                step(x).square().mean().backward()
        if compiled:
            assert step.report().eager_calls == 0
        return [p.grad for p in model.parameters()] + list(model.buffers())

    assert all(same(a, b) for a, b in zip(train(False), train(True)))


def test_the_innermost_scope_counts(arguments):
    step = antegrad.compile(chain)

    def hooks_of_last():
        gradients(step, *arguments)
        return step.report().programs[-1].hooks

    with antegrad.saved_tensors_hooks(to_bf16, from_bf16):
        with antegrad.saved_tensors_hooks(copy, copy):
            assert hooks_of_last() == "copy"
        assert hooks_of_last() == "to_bf16"
    assert hooks_of_last() == ""
    assert len(step.report().programs) == 3


def test_scopes_are_of_threads(arguments):
    step = antegrad.compile(lambda x: x.exp().sum())

    def run(hooked):
        x = torch.randn(64, requires_grad=True)
        exact = x.detach().exp()
        for _ in range(10):
            with antegrad.saved_tensors_hooks(to_bf16, from_bf16) if hooked else contextlib.nullcontext():
                loss = step(x)
            (gradient,) = torch.autograd.grad(loss, x)
            if not same(gradient, exact.bfloat16().float() if hooked else exact):
                return False
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, [True, False, True, False]))
    assert len(step.report().programs) == 2
