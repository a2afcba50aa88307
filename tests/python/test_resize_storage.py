"""Storages that a compiled function resizes: antegrad.resize_storage_ and, through Dynamo, untyped_storage().resize_(). The cases
are those of PyTorch's tests of AOTAutograd (storage resizes of inputs) and of Inductor's distributed patterns."""

import pytest
import torch
from eager import same

import antegrad


def by_antegrad(tensor, nbytes):
    antegrad.resize_storage_(tensor, nbytes)


def by_inductor(tensor, nbytes):
    torch.ops.inductor.resize_storage_bytes_(tensor, nbytes)


def by_storage(tensor, nbytes):
    tensor.untyped_storage().resize_(nbytes)


def compiled(function):
    return antegrad.compile(function)


def through_dynamo(function):
    return torch.compile(function, backend=antegrad.backend, fullgraph=True)


WAYS = [(by_antegrad, compiled), (by_inductor, compiled), (by_storage, through_dynamo)]


def size(tensor):
    return tensor.untyped_storage().size()


def freed(*sizes, requires_grad=False):
    tensor = torch.zeros(sizes, requires_grad=requires_grad)
    tensor.untyped_storage().resize_(0)
    return tensor


def fill(tensor, source):
    """As sharded training does: the version stays."""
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(tensor):
        tensor.copy_(source)


def expect_as_eager(resize, compile_it, make, world, between=None):
    """Two calls of make(resize), each with a backward, against eager."""

    def seen(function):
        inputs = world()
        results = function(*inputs)
        found = [r.detach().clone() for r in results]
        sizes = [size(t) for t in inputs]
        versions = [t._version for t in inputs]
        found += [t.detach().clone() for t in inputs if size(t) != 0]
        leaves = [t for t in inputs if t.requires_grad]
        if leaves:
            if between is not None:
                between(*inputs)
            found += torch.autograd.grad(sum(r.sum() for r in results), leaves)
        return found, sizes, versions

    eager = seen(make(resize if compile_it is compiled else by_storage))
    function = compile_it(make(resize))
    for _ in range(2):
        found = seen(function)
        assert all(same(a, b) for a, b in zip(found[0], eager[0], strict=True))
        assert found[1:] == eager[1:]
    reports = [function.report()] if compile_it is compiled else antegrad.report(function)
    assert [r.eager_calls for r in reports] == [0]
    return function


@pytest.mark.parametrize("resize, compile_it", WAYS)
def test_a_storage_that_is_freed(resize, compile_it):
    def make(resize):
        def f(x):
            y = x.sin()
            resize(x, 0)
            return [y.cos()]

        return f

    expect_as_eager(resize, compile_it, make, lambda: [torch.arange(8.0)])


@pytest.mark.parametrize("resize, compile_it", WAYS)
def test_a_storage_that_is_allocated(resize, compile_it):
    def make(resize):
        def f(out, x):
            assert out.untyped_storage().size() == 0
            resize(out, x.untyped_storage().size())
            out.copy_(x.sin().cos())
            return [out + 1]

        return f

    expect_as_eager(resize, compile_it, make, lambda: [freed(8), torch.arange(8.0)])


@pytest.mark.parametrize("resize, compile_it", WAYS)
def test_a_storage_that_is_filled_for_the_call(resize, compile_it):
    def make(resize):
        def f(a):
            resize(a, 32)
            with torch.no_grad():
                a.copy_(torch.ones(8))
            out = a.sin()
            resize(a, 0)
            return [out]

        return f

    def between(a):
        a.untyped_storage().resize_(32)
        fill(a, torch.ones(8))

    expect_as_eager(resize, compile_it, make, lambda: [freed(8, requires_grad=True)], between)


@pytest.mark.parametrize("resize, compile_it", WAYS)
def test_a_storage_that_is_allocated_under_grad(resize, compile_it):
    def make(resize):
        def f(a):
            resize(a, 32)
            with torch.no_grad():
                a.copy_(torch.ones(8))
            return [a.sin()]

        return f

    expect_as_eager(resize, compile_it, make, lambda: [freed(8, requires_grad=True)])


# A layer as FSDP2 runs it: its weight is gathered, used and freed, and what is saved is the weight without memory.
@pytest.mark.parametrize("resize, compile_it", WAYS)
def test_a_sharded_layer(resize, compile_it):
    def make(resize):
        def f(x, weight, shard):
            resize(weight, 4 * weight.numel())
            with torch.no_grad():
                weight.copy_(torch.cat([shard, shard]))
            y = torch.nn.functional.linear(x, weight).relu()
            resize(weight, 0)
            return [y]

        return f

    def world():
        torch.manual_seed(0)
        return [torch.randn(2, 4, requires_grad=True), freed(6, 4, requires_grad=True), torch.randn(3, 4)]

    def between(x, weight, shard):
        weight.untyped_storage().resize_(4 * weight.numel())
        fill(weight, torch.cat([shard, shard]))

    function = expect_as_eager(resize, compile_it, make, world, between)
    (y,) = function(*world())
    with pytest.raises(antegrad.BackwardError, match="whose storage was freed"):
        y.sum().backward()


@pytest.mark.parametrize("resize, compile_it", WAYS)
def test_lists_fill_storages(resize, compile_it):
    def make(resize):
        def f(a, b, x):
            for t in (a, b):
                resize(t, 32)
            torch._foreach_copy_([a, b], [x, x * 2])
            y = a * b
            resize(a, 0)
            return [y]

        return f

    expect_as_eager(resize, compile_it, make, lambda: [freed(8), freed(8), torch.arange(8.0)])


def test_reading_freed_memory_is_refused():
    def f(x):
        antegrad.resize_storage_(x, 0)
        return x * 2

    x = torch.arange(8.0)
    with pytest.raises(antegrad.MutationError, match=r"whose storage has no memory, read at(.|\n)*at .*test_resize_storage.py:\d+, in f"):
        antegrad.compile(f)(x)
    assert torch.equal(x, torch.arange(8.0))
    with pytest.raises(antegrad.InputError, match="32 bytes that becomes one of 8"):
        antegrad.resize_storage_(x, 8)


def test_a_call_without_memory_is_another_program():
    step = antegrad.compile(lambda x: x * 2 if x.untyped_storage().size() else torch.ones(8))
    x = torch.arange(8.0)
    assert torch.equal(step(x), x * 2)
    assert torch.equal(step(freed(8)), torch.ones(8))
    assert torch.equal(step(x), x * 2)
    assert len(step.report().programs) == 2


# untyped_storage() of what stands for a tensor is another storage, and that of the tensor itself would be resized now.
@pytest.mark.parametrize("kind", ["argument", "held", "parameter"])
def test_other_resizes_are_refused(kind):
    model = torch.nn.Linear(4, 4, bias=False)
    held = model.weight if kind == "parameter" else torch.randn(4, 4)

    def f(x):
        y = x @ held
        (x if kind == "argument" else held).untyped_storage().resize_(0)
        return y

    x = torch.randn(4, 4)
    with pytest.raises(antegrad.CaptureError):
        antegrad.compile(f)(x)
    assert size(x) == size(held) == 64
    held.untyped_storage().resize_(0)  # allowed again
    assert size(held) == 0


# AOTAutograd frees the input at the end of its forward: exp() cannot run again.
def test_partitions_for_inductor_compute_nothing_again_from_what_is_freed():
    def f(x):
        y = x.exp()
        x.untyped_storage().resize_(0)
        return y * 2

    partitioner = antegrad.inductor_partitioner()
    x = torch.arange(8.0, requires_grad=True)
    with torch._inductor.config.patch(force_disable_caches=True):  # from which partitions come without a partitioner
        y = torch.compile(f, options={"custom_partitioner_fn": partitioner})(x)
    assert size(x) == 0
    assert "0 recomputed" in repr(partitioner.records[0])
    y.sum().backward()
    assert torch.allclose(x.grad, 2 * torch.arange(8.0).exp())
