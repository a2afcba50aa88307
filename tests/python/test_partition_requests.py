"""What programs and AOTAutograd ask of a partitioner, under antegrad.partition_fn: results and effects are those of eager mode,
and what cannot be done is refused."""

import functools

import antegrad
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch._functorch import config
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from partitioned import SETTINGS, Partitioned, every_setting, expect_same_bits, inductor, partitioned

calls = []


@torch.library.custom_op("antegrad_tests::logged", mutates_args=())
def logged(x: torch.Tensor) -> torch.Tensor:
    calls.append("forward")
    return x * 2


@torch.library.custom_op("antegrad_tests::logged_backward", mutates_args=())
def logged_backward(x: torch.Tensor) -> torch.Tensor:
    calls.append("backward")
    return x * 2


@torch.library.custom_op("antegrad_tests::log", mutates_args=())
def log(x: torch.Tensor) -> None:
    calls.append("log")


logged.register_fake(torch.empty_like)
logged.register_autograd(lambda ctx, gradient: logged_backward(gradient))
logged_backward.register_fake(torch.empty_like)
log.register_fake(lambda x: None)
for effectful in (logged, logged_backward, log):
    _register_effectful_op(effectful._opoverload, _EffectType.ORDERED)


def leaves(*shapes):
    torch.manual_seed(1)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def saved(partition):
    """What the forward saves, by name of node: results come first in its output."""
    outputs = partition.forwards[0].graph.output_node().args[0]
    return {node.name: node.meta["val"] for node in outputs[1:]}


def step(function, *inputs):
    """The result and the gradients."""
    result = function(*inputs)
    result.sum().backward()
    return [result, *(x.grad for x in inputs if x.requires_grad)]


def expect_as_eager(function, *shapes, setting, **keywords):
    """Compiles a function of tensors with gradients, and compares with eager. Returns the partition."""
    partition = partitioned(setting)
    expect_same_bits(step(partition.compile(function, **keywords), *leaves(*shapes)), step(function, *leaves(*shapes)))
    assert partition.records()
    return partition


# State that the backward writes


class CountsBackwards(torch.autograd.Function):
    """The state scales the gradient, as it is then."""

    @staticmethod
    def forward(ctx, x, state):
        ctx.state = state
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        result = gradient * x.cos() * ctx.state.exp()
        ctx.state.add_(1)
        return result, None


class ScalesByCount(torch.autograd.Function):
    """The state scales result and gradient, as it was in the forward."""

    @staticmethod
    def forward(ctx, x, state):
        scale = state.exp()
        ctx.state = state
        ctx.save_for_backward(x, scale)
        return x.sin() * scale

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        ctx.state.add_(1)
        return gradient * x.cos() * scale, None


class WritesTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, state):
        state.add_(1)
        ctx.state = state
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        ctx.state.mul_(3)
        return gradient * x.cos(), None


@every_setting
@pytest.mark.parametrize("function,forwards", [(CountsBackwards, 2), (ScalesByCount, 2), (WritesTwice, 1)])
def test_state_that_the_backward_writes(function, forwards, setting):
    partition = partitioned(setting)
    found = []
    for run in (lambda x, state: function.apply(x, state).exp().sum(),) * 2:
        x, state = *leaves((4,)), torch.ones(4)
        run = partition.compile(run) if found else run
        losses = [run(x, state) for _ in range(forwards)]
        for loss in losses:
            loss.backward()
        found.append([x.grad, state])
    expect_same_bits(*found)
    assert partition.records()


# What is saved


@every_setting
def test_a_size_is_saved_and_not_its_tensor(setting):
    def function(x, w):
        return x.sum(0) * 2 + w

    partition = expect_as_eager(function, (3, 5), (5,), setting=setting, dynamic=True)
    assert not any(isinstance(value, torch.Tensor) for value in saved(partition).values())


def keep_sigmoids(ctx, op, *args, **keywords):
    return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.sigmoid.default else CheckpointPolicy.PREFER_RECOMPUTE


@every_setting
@pytest.mark.filterwarnings("ignore")
def test_what_a_policy_must_save_is_saved_at_every_budget(setting):
    context = functools.partial(create_selective_checkpoint_contexts, keep_sigmoids)

    def block(x, w):
        return (torch.sigmoid((x @ w).sin()).cos() @ w).exp()

    partition = expect_as_eager(
        lambda x, w: checkpoint(block, x, w, use_reentrant=False, context_fn=context), (8, 8), (8, 8), setting=setting)
    assert "sigmoid" in saved(partition)


@every_setting
def test_parameters_count_as_memory_that_stays(setting):
    """AOTAutograd names them static inputs. A parameter that is read in the backward costs nothing to save."""
    model = nn.Linear(64, 64)
    partition = partitioned(setting)
    partition.compile(model)(torch.randn(4, 64, requires_grad=True)).sum().backward()
    (record,) = partition.records()
    assert partition.static_inputs[0]
    assert record.graph.count("primal parameter") == len(partition.static_inputs[0])


@every_setting
def test_a_graph_can_be_retained(setting):
    (x,) = leaves((8, 8))
    partition = partitioned(setting)
    result = partition.compile(lambda x: x.sin().exp().sum())(x)
    result.backward(retain_graph=True)
    once = x.grad.clone()
    result.backward()
    assert torch.equal(x.grad, 2 * once)


# Effects, collectives, hooks


@every_setting
def test_effects_happen_once_and_in_order(setting):
    calls.clear()
    expect_as_eager(lambda x: logged(x.cos()).sin().exp(), (4,), setting=setting)
    assert calls == ["forward", "backward"] * 2


class Logs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        log(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        log(gradient)
        log(x)
        return gradient * x.cos()


@every_setting
def test_effects_without_results_happen_once(setting):
    calls.clear()
    expect_as_eager(lambda x: Logs.apply(x.exp()).sin(), (4,), setting=setting)
    assert len(calls) == 6


@pytest.fixture
def two_ranks():
    """A group of two processes of which one is there; collectives return something."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


def collectives_of(graph):
    return [node.target for node in graph.graph.nodes if getattr(node.target, "namespace", "") == "_c10d_functional"
            and "wait" not in str(node.target)]


@every_setting
def test_collectives_are_never_repeated(setting, two_ranks):
    def function(x, w):
        gathered = collectives.all_gather_tensor_autograd((x @ w).sin(), 0, dist.group.WORLD)
        return gathered.cos() @ w

    partition = partitioned(setting)
    step(partition.compile(function), *leaves((4, 4), (4, 4)))
    assert partition.records()
    assert [len(collectives_of(graph)) for graph in (partition.forwards[0], partition.backwards[0])] == [1, 1]


@every_setting
def test_hooks_of_compiled_autograd(setting):
    def function(x, y):
        x.register_hook(lambda gradient: gradient * 2)
        product = x.sin() * y
        product.register_hook(functools.partial(lambda gradient, factor: gradient * factor, factor=3))
        return product.exp()

    partition = partitioned(setting)
    expected = step(function, *leaves((4,), (4,)))
    with torch._dynamo.compiled_autograd._enable(lambda graph: graph):
        found = step(partition.compile(function), *leaves((4,), (4,)))
    expect_same_bits(found, expected)
    assert partition.records()


# Graphs with something unusual in them


class Scale(OpaqueBase):
    def __init__(self, factor):
        self.factor = factor


register_opaque_type(Scale, typ="reference")


@torch.library.custom_op("antegrad_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, scale: Scale) -> torch.Tensor:
    return x * scale.factor


scaled.register_fake(lambda x, scale: torch.empty_like(x))
scaled.register_autograd(lambda ctx, gradient: (scaled(gradient, ctx.scale), None),
                         setup_context=lambda ctx, inputs, output: setattr(ctx, "scale", inputs[1]))


@every_setting
def test_opaque_objects_reach_the_backward(setting):
    partition = partitioned(setting)
    compiled = partition.compile(lambda x, scale: scaled(x.sin(), scale).exp())
    scale = Scale(3)
    found, expected = (step(lambda x: function(x, scale), *leaves((4,)))
                       for function in (compiled, lambda x, scale: scaled(x.sin(), scale).exp()))
    expect_same_bits(found, expected)
    assert partition.records()


@every_setting
def test_regions_that_are_compiled_once(setting):
    @torch.compiler.nested_compile_region
    def region(x, w):
        return (x @ w).sin().exp().cos()

    expect_as_eager(lambda x, w: region(region(x, w), w), (4, 4), (4, 4), setting=setting)


class IgnoresUndefined(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, first, second):
        assert second is None
        return first * ctx.saved_tensors[0].cos()


CASES = {
    "tensors made of sizes": lambda x: x.sin().exp() * torch.arange(x.shape[0]) + torch.tensor(x.shape[1]),
    "an expanded scalar": lambda x: (x.sum() * 2).expand(7, x.shape[0]).sin() * 1,
    "a result without a gradient": lambda x: IgnoresUndefined.apply(x)[0].exp(),
    "views of overlapping memory": lambda x: x.view(-1).as_strided((3, 4), (2, 1)).sin().exp(),
    "nested checkpoints": lambda x: checkpoint(
        lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False).cos(), x, use_reentrant=False).sin(),
    "branches": lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)).exp(),
    "results that are inputs and views": lambda x: x.sin().view(-1)[:2] * x.detach()[0, :2],
    "transforms": lambda x: torch.func.vmap(torch.func.grad(lambda row: row.sin().sum()))(x).exp(),
    "a size that the data decides": lambda x: (x[x > 0].sin() * 2).exp(),
}


@every_setting
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.long)])
def test_unusual_graphs(dynamic, name, setting):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        expect_as_eager(CASES[name], (4, 4), setting=setting, dynamic=dynamic)


@every_setting
def test_autocast(setting):
    """Compared with aot_eager: its decompositions round elsewhere than eager mode does."""
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8))
    found = []
    for partition in (Partitioned(), partitioned(setting)):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            result = partition.compile(model)(torch.ones(4, 8))
        result.float().sum().backward()
        found.append([result, *(p.grad.clone() for p in model.parameters())])
    expect_same_bits(*found)
    assert partition.records()


@every_setting
def test_tensor_subclasses(setting):
    def function(x):
        return (x.sin() @ x).cos()

    found = []
    partition = partitioned(setting)
    for run in (function, partition.compile(function)):
        x = TwoTensor(*leaves((4, 4), (4, 4))).detach().requires_grad_()
        run(x).sum().backward()
        found.append([x.grad.a, x.grad.b])
    expect_same_bits(*found)
    assert partition.records()


# Random draws


# Half of each mask is zero, the rest two.
MASKS = {
    "dropout": lambda x: nn.functional.dropout(torch.ones_like(x), 0.5),
    "rand_like": lambda x: 2.0 * (torch.rand_like(x) > 0.5),
    "randn": lambda x: 2.0 * (torch.randn(x.shape) > 0),
    "bernoulli": lambda x: 2 * torch.bernoulli(torch.full_like(x, 0.5)),
    "randint": lambda x: 2.0 * torch.randint(2, x.shape),
    "randperm": lambda x: 2.0 * (torch.randperm(x.numel()).view_as(x) % 2),
    "multinomial": lambda x: 2.0 * torch.multinomial(torch.ones(x.shape[0], 2), x.shape[1], True),
    "exponential": lambda x: 2.0 * (torch.empty_like(x).exponential_() > 0.7),
}
every_mask = pytest.mark.parametrize(
    "mask", [mask if mask == "dropout" else pytest.param(mask, marks=pytest.mark.long) for mask in MASKS])
with_checkpoint = pytest.mark.parametrize("checkpointed", [False, True])


def masked(mask, checkpointed):
    """A function of ones, that gives powers of two: its gradient is its result eight times, exactly."""

    def chain(x):
        for _ in range(3):
            x = (x * MASKS[mask](x)).square()
        return x

    return (lambda x: checkpoint(chain, x, use_reentrant=False)) if checkpointed else chain


def expect_the_same_masks(compiled):
    x = torch.ones(64, 64, requires_grad=True)
    result = compiled(x)
    result.sum().backward()
    assert 0 < result.count_nonzero() < result.numel() / 4
    assert torch.equal(x.grad, 8 * result)


@every_setting
@every_mask
@with_checkpoint
def test_the_backward_has_the_draws_of_the_forward(checkpointed, mask, setting):
    partition = partitioned(setting)
    expect_the_same_masks(partition.compile(masked(mask, checkpointed)))
    assert partition.records()


@pytest.mark.parametrize("setting", ["share 0.0", *(
    pytest.param(setting, marks=pytest.mark.long) for setting in ("minimum cut", "share 0.5"))])
@every_mask
@with_checkpoint
def test_the_backward_has_the_draws_of_the_forward_under_inductor(checkpointed, mask, setting):
    partitioner = antegrad.inductor_partitioner(**SETTINGS[setting])
    with inductor(partitioner):
        expect_the_same_masks(torch.compile(masked(mask, checkpointed)))
    assert len(partitioner.records) == 1


# Inductor


def test_saved_tensors_are_donated_as_with_the_partitioner_of_inductor():
    """Inductor writes into what only the backward reads; so a graph may be retained in all steps or in none."""
    for partitioner in (None, antegrad.inductor_partitioner()):
        (x,) = leaves((8, 8))
        with inductor(partitioner), config.patch(donated_buffer=True):
            compiled = torch.compile(lambda x: (x.sin() @ x).exp().sum())
            compiled(x).backward()
            with pytest.raises(RuntimeError, match="non-empty donated buffers"):
                compiled(x).backward(retain_graph=True)


def test_other_backends_do_not_read_the_partitioner_of_inductor():
    partitioner = antegrad.inductor_partitioner(memory_share=0.0)
    with inductor(partitioner):
        compiled = torch.compile(lambda x: x.sin().exp(), backend="aot_eager")
        expect_same_bits(step(compiled, *leaves((4,))), step(lambda x: x.sin().exp(), *leaves((4,))))
    assert not partitioner.records


# Refused


def expect_refused(function, *inputs, match):
    partition = partitioned()
    with pytest.raises(Exception, match=match):
        partition.compile(function)(*inputs)
    assert not partition.partition.records


def test_a_budget_of_a_region_is_refused():
    def function(x):
        with torch.autograd.graph.region_activation_memory_budget(0.5):
            return (x.sin() @ x).exp()

    expect_refused(function, *leaves((4, 4)), match="found one for a region of the program.*give activation_memory_budget")


@pytest.mark.parametrize("switch", ["enable_activation_offloading", "_sync_decision_cross_ranks"])
def test_switches_of_the_partitioner_are_refused(switch):
    with config.patch({switch: True}):
        expect_refused(lambda x: x.sin().exp(), *leaves((4,)), match=f"{switch} off, found it on")


def test_sparse_gradients_are_refused():
    table = nn.Embedding(10, 4, sparse=True)
    expect_refused(lambda rows: table(rows).sin(), torch.arange(3), match="expected dense tensors, found torch.sparse_coo")
